// Comparing what a device computed with what REF computed: equal bits where the dtype is exact, else within a
// bound that follows from the dtype and from how many roundings lead to a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/node.h"
#include "reference/array.h"

namespace lathe::verify {

struct Tolerance {
  double roundings = 16;  // operations that round on the way to one element; a sum of n adds n
  double epsilon = 0;     // of the coarsest float they round to; 0: that of the compared dtype
  double scale =
      0;  // size of the terms a result may be the small difference of; 0: the largest finite result
};

// Tolerance of a kernel's results: the longest chain of reduces, and its coarsest float.
Tolerance tolerance_of(Node kernel, DType stored);

struct Comparison {
  std::int64_t compared = 0, different = 0;
  std::int64_t worst = -1;      // the element that is furthest beyond its bound, or -1
  double want = 0, got = 0;     // there
  double error = 0, bound = 0;  // there
  bool equal() const { return different == 0; }
  std::string text() const;  // "element 7 is 1.5, not 1.25: off by 0.25, bound 1e-6; 3 of 64 differ"
};

// NaN equals NaN, infinities equal themselves. `only`, where given, says which elements to look at.
Comparison compare(const reference::Array& want, const reference::Array& got, const Tolerance& tolerance = {},
                   const std::vector<bool>* only = nullptr);

// The largest finite magnitude among floats; 0 for other dtypes.
double magnitude_of(const reference::Array& array);

// The distance from 1 to the next value of a float dtype.
double epsilon_of(DType dtype);

}  // namespace lathe::verify
