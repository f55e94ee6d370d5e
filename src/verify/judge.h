// Whether what a device stored is what the kernel means: each element against REF's value and its bounds
// (reference/bounded.h). Within the likely bound it has passed, beyond the worst one it has failed. Between
// them the order of the roundings may be an unlucky one: the kernel with its options, run in float64, says
// whether it was rounding. Where nothing can be said, or a bound is so wide that nearly anything would pass,
// the element is unjudged: that is counted and never called passed.
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

// Of one that is unsure: whether the kernel with its options, computed in float64 (EvalOptions::wide_floats)
// and rounded once, agrees with REF, or with the device where float64 is what is stored.
bool is_rounding(const reference::Sample& sample, DType stored, reference::Cell device,
                 reference::Cell with_options);

// The root mean square of the finite values of one slot; 0 where there are none.
double scale_of(std::span<const reference::Sample> samples, std::int64_t slot, DType stored);

struct Judgement {
  std::int64_t passed = 0, failed = 0, unsure = 0, unjudged = 0;
  std::vector<Verdict> verdicts;  // by sample
  std::ptrdiff_t worst = -1;      // the failed or unsure sample that is furthest beyond its likely bound
  double error = 0;               // there
  std::int64_t judged() const { return passed + failed + unsure; }
  // "element 7 of buffer 0 is 1.5, not 1.25: off by 0.25, likely 1e-6, at worst 2e-6; 3 of 64 differ"
  std::string text() const;

 private:
  friend Judgement judge(std::span<const reference::Sample>, std::span<const DType>,
                         std::span<const reference::Cell>, std::span<const reference::Cell>);
  std::string worst_text_;
};

// All samples; `stored`, `device` and `before` (may be empty) hold, for each of them, the dtype of its
// buffer, what the device left there and what was there before. A sample that is not written must keep what
// was there.
Judgement judge(std::span<const reference::Sample> samples, std::span<const DType> stored,
                std::span<const reference::Cell> device, std::span<const reference::Cell> before = {});

}  // namespace lathe::verify
