// The rounding errors of float dtypes and the `error` column of ops.def: the facts behind REF's error bounds.
#pragma once

#include "ir/dtype.h"
#include "ir/op.h"

namespace lathe::reference {

struct Rounding {
  int precision = 53;    // bits of the significand, the leading one counted
  double unit = 0;       // 2^-precision: rounding x moves it by at most unit * |x| ...
  double tiny = 0;       // ... + half of the smallest subnormal number
  double limit = 0;      // |x| from here on rounds to infinity, or to NaN where there is none
  double wide_unit = 0;  // of the float that results of the dtype are computed in before they are rounded
};
// Of a float dtype.
const Rounding& rounding_of(DType dtype);

// How far a device's result of the op may be from the exact one, in ulp of a float dtype.
double error_of(Op op);

// Whether v, whose exponent is ordinary, has at most so many significant bits.
inline bool fits_precision(double v, int precision) {
  const double scaled = v * (static_cast<double>(1ull << (53 - precision)) + 1);
  return scaled - (scaled - v) == v;
}

}  // namespace lathe::reference
