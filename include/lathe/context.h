// Settings and counters of the library: the LATHE_* flags overridden for a while, and what was run so far.
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
  std::string name, value, help;  // "LATHE_DEBUG", its value now, what it does
};
std::vector<FlagRow> flags();

// What was run since the last reset.
struct Counters {
  std::uint64_t kernels = 0;       // launched
  std::uint64_t copies = 0;        // between devices
  double flops = 0, bytes = 0;     // counted on the kernels launched
  std::uint64_t bytes_copied = 0;  // between devices
  std::uint64_t schedules = 0;     // graphs scheduled
  std::uint64_t compiles = 0;      // kernels compiled
  std::size_t memory_used = 0;     // bytes held by live buffers now
  std::size_t memory_peak = 0;
  double seconds = 0;  // time in kernels, where it was measured
};
Counters counters();
void reset_counters();

}  // namespace lathe
