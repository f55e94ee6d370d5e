// What this build can use on this machine: devices, the cache on disk, kernel times. Unstable: for tools.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lathe::dev {

struct DeviceRow {
  std::string name;
  std::string unavailable;           // why it cannot be used; empty if it can
  std::string target;                // of this machine, "x86-64-v4"; empty if the device compiles nothing
  std::string compiler;              // name and version of the compiler of its machine code
  std::string features;              // features of the target, as readable text
  std::vector<std::string> targets;  // all targets it can compile for
};
std::vector<DeviceRow> devices();

// Versions of Lathe and of what it was built with: {"lathe", "0.1.0"}, {"compiler", "GCC 12.2"}, ...
std::vector<std::pair<std::string, std::string>> versions();

// The rules of the heuristic that chooses kernel options: name and purpose. LATHE_WITHOUT=name disables one.
std::vector<std::pair<std::string, std::string>> heuristic_rules();
// The rules that a kernel's options depend on: disabling any one of them changes the options. `kernel` is its
// text (ScheduledKernel::text).
std::vector<std::string> rules_used(const std::string& kernel, const std::string& device);

struct CacheInfo {
  std::string folder;  // empty if the cache is off
  std::uint64_t entries = 0, bytes = 0;
};
CacheInfo cache_info();
std::string cache_folder();  // cache_info().folder, without reading the folder
void clear_cache();

// First-use checks since the process began (LATHE_CHECK): kernels whose samples agreed with REF, kernels not
// compared yet, and kernels that differed and were replaced.
struct CheckCounts {
  std::uint64_t compared = 0, unchecked = 0, replaced = 0;
  double seconds = 0;  // CPU time of the launching threads spent on it
};
CheckCounts check_counts();

// Turns timing of every kernel on or off.
void set_profiling(bool on);
struct KernelCost {
  std::string name, device, options, origin;
  std::uint64_t runs = 0;
  double seconds = 0, gflops = 0, gbytes = 0;  // the last two per second
  double roof = 0;                             // share of the machine's peak; 0 if that is not known
};
// The kernels timed so far, most expensive first.
std::vector<KernelCost> kernel_costs();

// The measured peak of a device: float operations and bytes copied per second; 0 if not known.
struct DeviceRoof {
  double flops = 0, bytes = 0;
};
DeviceRoof roof_of(const std::string& device);

// Runs `steps` multiply-adds of the widest float vectors on each of several register chains; returns the
// number of operations done.
double multiply_adds(int steps, float* sink);

}  // namespace lathe::dev
