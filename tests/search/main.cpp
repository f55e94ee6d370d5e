// The test program is its own worker: with --worker it answers as lathe-worker does, with faults planted into
// the candidates the command names, so that a crash or a hang is a candidate's and no test's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "search/worker.h"

namespace {

// --worker [crash TEXT | hang TEXT | wrong TEXT]...: a candidate whose options contain the text does that.
int worker(int argc, char** argv) {
  lathe::search::WorkerHooks hooks;
  hooks.before_run = [argc, argv](const std::string& options) {
    for (int i = 2; i + 1 < argc; i += 2) {
      if (options.find(argv[i + 1]) == std::string::npos) continue;
      if (std::string(argv[i]) == "crash") raise(SIGSEGV);
      while (std::string(argv[i]) == "hang") sleep(1);
    }
  };
  hooks.after_run = [argc, argv](const std::string& options, std::string& bytes) {
    for (int i = 2; i + 1 < argc; i += 2)
      if (std::string(argv[i]) == "wrong" && options.find(argv[i + 1]) != std::string::npos)
        for (char& c : bytes) c = static_cast<char>(c ^ 0x35);
  };
  return lathe::search::worker_main(hooks);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--worker") return worker(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
