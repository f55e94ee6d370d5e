// Settings and counters of the library: overrides of LATHE_* flags for a scope, and counts of what has run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// Overrides a LATHE_* flag on this thread until destroyed. Scopes nest and end in reverse order.
class FlagOverride {
 public:
  // By name, with or without LATHE_, in any case. Throws UserError for an unknown name or a bad value.
  FlagOverride(std::string_view name, std::string_view value);
  ~FlagOverride();
  FlagOverride(const FlagOverride&) = delete;
  FlagOverride& operator=(const FlagOverride&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct FlagRow {
  std::string name, value, help;  // "LATHE_DEBUG", its current value, what it does
};
// All flags with their values on this thread.
std::vector<FlagRow> flags();

// Counts since the last reset.
struct Counters {
  std::uint64_t kernels = 0;       // kernels launched
  std::uint64_t copies = 0;        // copies between devices
  double flops = 0, bytes = 0;     // operations and memory traffic of the launched kernels
  std::uint64_t bytes_copied = 0;  // bytes copied between devices
  std::uint64_t schedules = 0;     // graphs scheduled
  std::uint64_t compiles = 0;      // kernels compiled
  std::size_t memory_used = 0;     // bytes held by live buffers now
  std::size_t memory_peak = 0;     // the most that was held at once
  double seconds = 0;              // time in kernels that were timed
};
Counters counters();
void reset_counters();

}  // namespace lathe
