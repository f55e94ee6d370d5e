// Comparing two results of one kernel in full: equal bits where the dtype is exact, else within a part of the
// usual size of a result. What REF says about a kernel is compared by judge.h.
#pragma once

#include <cstdint>
#include <string>

#include "reference/array.h"

namespace lathe::verify {

struct Comparison {
  std::int64_t compared = 0, different = 0;
  std::int64_t worst = -1;      // the element that is furthest beyond its bound, or -1
  double want = 0, got = 0;     // there
  double error = 0, bound = 0;  // there
  bool equal() const { return different == 0; }
  std::string text() const;  // "element 7 is 1.5, not 1.25: off by 0.25, bound 1e-6; 3 of 64 differ"
};

// NaN equals NaN, infinities equal themselves; else an element of x may differ by `relative` times its size
// or the root mean square of all finite ones, whichever is larger.
Comparison compare(const reference::Array& want, const reference::Array& got, double relative);

}  // namespace lathe::verify
