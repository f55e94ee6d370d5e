// Judges whether a device stored what the kernel means, by comparing each element with REF's value and its
// error bounds (reference/bounded.h). Within the likely bound it passes, beyond the worst bound it fails. In
// between it may be due to the order of roundings, which the kernel with its options decides (is_rounding).
// If no bound is known, or it is so wide that nearly anything would pass, the element is unjudged: it is
// counted, but does not count as passed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/bounded.h"

namespace lathe::verify {

enum class Verdict : std::uint8_t { Passed, Failed, Unsure, Unjudged };

// `scale`: the usual size of results beside it (scale_of); a bound over a quarter of it, or of the value
// where that is larger, says nothing.
Verdict judge(const reference::Sample& sample, DType stored, reference::Cell device, double scale);

// Of one that is unsure: whether it is the kernel's order of roundings. The kernel with its options agrees
// with REF when it is computed in float64 (EvalOptions::wide_floats), and in its own dtypes it is off as
// well, by at least half of what the device is.
bool is_rounding(const reference::Sample& sample, DType stored, reference::Cell device,
                 reference::Cell in_float64, reference::Cell in_its_dtypes);

// The root mean square of the finite values of one slot; 0 where there are none.
double scale_of(std::span<const reference::Sample> samples, std::int64_t slot, DType stored);

struct Judgement {
  std::int64_t passed = 0, failed = 0, unsure = 0, unjudged = 0;
  std::vector<Verdict> verdicts;  // by sample
  std::ptrdiff_t worst = -1;  // the failed sample that is furthest beyond its likely bound, else the unsure
  double error = 0;           // there
  std::int64_t judged() const { return passed + failed + unsure; }
  std::int64_t slot = -1;    // there
  std::string worst_text;    // "element 7 is 1.5, not 1.25: off by 0.25, likely 1e-6, at worst 2e-6"
  std::string text() const;  // the same and "; 3 of 64 differ"

  // Counts and worst sample from `verdicts`, after some of them changed; the rest as for judge().
  void recount(std::span<const reference::Sample> samples, std::span<const DType> stored,
               std::span<const reference::Cell> device, std::span<const reference::Cell> before);
};

// All samples; `stored`, `device` and `before` (may be empty) hold, for each of them, the dtype of its
// buffer, what the device left there and what was there before. A sample that is not written must keep what
// was there.
Judgement judge(std::span<const reference::Sample> samples, std::span<const DType> stored,
                std::span<const reference::Cell> device, std::span<const reference::Cell> before = {});

}  // namespace lathe::verify
