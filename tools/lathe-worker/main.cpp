// `lathe-worker`: compiles, runs and times the candidates of a search in a process of its own, and does the
// experiments of an investigation (`lathe-worker investigate`, `lathe-worker replay FILE`). Started by those,
// which speak with it over its standard input and output; of no use by hand.
#include <string_view>

#include "lathe/dev/investigate_kernel.h"
#include "lathe/dev/search.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "investigate") return lathe::dev::run_investigation_worker();
  if (argc > 2 && std::string_view(argv[1]) == "replay") return lathe::dev::run_saved_capture(argv[2]);
  return lathe::dev::run_search_worker();
}
