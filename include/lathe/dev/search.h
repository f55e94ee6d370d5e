// Tuning from the command line: searching options for the kernels of a net or for one kernel file, and
// inspecting such a file. Unstable: for tools.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/tensor.h"

namespace lathe::dev {

// The main function of lathe-worker.
int run_search_worker();

struct TuneLimits {
  double seconds = 60;  // for all kernels together
  int beam = 4;
  bool again = false;  // also search kernels that the store has, starting from the stored options
};

struct TunedKernel {
  std::string name, default_options, options;
  std::uint64_t uses = 1;
  double default_us = 0, best_us = 0, seconds = 0;
  bool known = false;  // options came from the store, without a search
  std::string why;     // why it was not searched; empty if it was
  int tried = 0, refused = 0, crashed = 0, hung = 0, wrong = 0;
  std::vector<std::pair<double, double>> curve;  // seconds of search, best microseconds
  std::vector<std::string> repros;
};

// Called during the search: seconds so far, the kernel, and its best time in microseconds.
using TuneWatch = std::function<void(double seconds, const std::string& kernel, double best_us)>;

// Tunes all kernels that computing these tensors would run on their device, most expensive first; each gets a
// share of the time in proportion to its possible gain. Results go to the store that LATHE_BEAM reads.
std::vector<TunedKernel> tune_tensors(const std::vector<Tensor>& tensors, const TuneLimits& limits,
                                      const TuneWatch& watch);
// Tunes one kernel from a file that LATHE_SAVE or a search wrote.
TunedKernel tune_kernel_file(const std::string& path, const std::string& device, const TuneLimits& limits,
                             const TuneWatch& watch);
// The folder of the store; empty if there is none.
std::string tuned_folder();

// A kernel file compiled again, with its own options or with others.
struct InspectedKernel {
  std::string name, graph, options, options_from, program, source;
  std::string saved_source;  // the source text in the file; empty if it has none
  double flops = 0, bytes = 0;
  std::uint64_t instructions = 0;
};
// `options` is "file" for those in the file, "default" for the heuristic's, or a list of options.
InspectedKernel inspect_kernel_file(const std::string& path, const std::string& device,
                                    const std::string& options);

}  // namespace lathe::dev
