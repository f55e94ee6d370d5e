// What this build can use on this machine: devices, the cache on disk, kernel times. Unstable: for tools.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lathe::dev {

struct DeviceRow {
  std::string name;
  std::string unavailable;           // empty where it can be used
  std::string target;                // of this machine, "x86-64-v4"; empty where nothing is compiled
  std::string compiler;              // name and version of what makes its machine code
  std::string features;              // what the target has, for people
  std::vector<std::string> targets;  // all it can compile for
};
std::vector<DeviceRow> devices();

// Versions of what Lathe itself is built with: {"lathe", "0.1.0"}, {"compiler", "GCC 12.2"}, ...
std::vector<std::pair<std::string, std::string>> versions();

// The rules of the heuristic that chooses kernel options: name and what it is for. LATHE_WITHOUT=name leaves
// one out.
std::vector<std::pair<std::string, std::string>> heuristic_rules();
// Those a kernel's options come from: without any of them it gets other options. The kernel is its text
// (ScheduledKernel::text).
std::vector<std::string> rules_used(const std::string& kernel, const std::string& device);

struct CacheInfo {
  std::string folder;  // empty where the cache is off
  std::uint64_t entries = 0, bytes = 0;
};
CacheInfo cache_info();
std::string cache_folder();  // the same without looking into it
void clear_cache();

// Kernels whose first samples agreed with REF, that could not be compared so far, that were replaced, since
// the process began (LATHE_CHECK).
struct CheckCounts {
  std::uint64_t compared = 0, unchecked = 0, replaced = 0;
};
CheckCounts check_counts();

// While on, every kernel is timed.
void set_profiling(bool on);
struct KernelCost {
  std::string name, device, options, origin;
  std::uint64_t runs = 0;
  double seconds = 0, gflops = 0, gbytes = 0;  // the last two per second
  double roof = 0;                             // share of what the machine can do, 0 where it is not known
};
// What was timed, most expensive first.
std::vector<KernelCost> kernel_costs();

// What a device does at best, measured: float operations and bytes copied a second; 0 where it is not known.
struct DeviceRoof {
  double flops = 0, bytes = 0;
};
DeviceRoof roof_of(const std::string& device);

// The widest float multiply-adds of one core, on registers alone: steps of every chain in, operations done
// out.
double multiply_adds(int steps, float* sink);

}  // namespace lathe::dev
