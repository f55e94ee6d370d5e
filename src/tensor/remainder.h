// Exact remainders of floats for every quotient: x - n*y with the integer n for which the magnitude is less
// than |y|. No step rounds, so all devices agree to the bit.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

// What truncated division leaves: as large as x at most, with its sign, NaN for an infinite x and for y = 0.
// Both have one float dtype and are not differentiated.
Tensor truncated_remainder(const Tensor& x, const Tensor& y);

}  // namespace lathe
