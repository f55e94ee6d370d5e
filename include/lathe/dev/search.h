// Tuning from the command line: searching the options of a net's kernels or of one kernel from a file, and
// looking at such a file. Unstable: for tools.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/tensor.h"

namespace lathe::dev {

// What lathe-worker does.
int run_search_worker();

struct TuneLimits {
  double seconds = 60;  // for all kernels together
  int beam = 4;
  bool again = false;  // search also what the store has, starting from it
};

struct TunedKernel {
  std::string name, default_options, options;
  std::uint64_t uses = 1;
  double default_us = 0, best_us = 0, seconds = 0;
  bool known = false;  // from the store: nothing was searched
  std::string why;     // not searched, because
  int tried = 0, refused = 0, crashed = 0, hung = 0, wrong = 0;
  std::vector<std::pair<double, double>> curve;  // seconds of search, best microseconds
  std::vector<std::string> repros;
};

// Called as the search goes on: seconds so far, the kernel, and its best time in microseconds.
using TuneWatch = std::function<void(double seconds, const std::string& kernel, double best_us)>;

// All kernels that computing these tensors would run on their device, most expensive first; the budget is
// shared by what each could gain. What is found goes to the store, where LATHE_BEAM finds it.
std::vector<TunedKernel> tune_tensors(const std::vector<Tensor>& tensors, const TuneLimits& limits,
                                      const TuneWatch& watch);
// One kernel from a file that LATHE_SAVE or a search wrote.
TunedKernel tune_kernel_file(const std::string& path, const std::string& device, const TuneLimits& limits,
                             const TuneWatch& watch);
// The folder of the store, empty where there is none.
std::string tuned_folder();

// A kernel file, compiled again: with the options in it, or with others.
struct InspectedKernel {
  std::string name, graph, options, options_from, program, source;
  std::string saved_source;  // what the file has, empty where it has none
  double flops = 0, bytes = 0;
  std::uint64_t instructions = 0;
};
// `options`: "file" takes those of the file, "default" the heuristic's, anything else is a list.
InspectedKernel inspect_kernel_file(const std::string& path, const std::string& device,
                                    const std::string& options);

}  // namespace lathe::dev
