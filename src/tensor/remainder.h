// Remainders of floats, exact whatever the quotient: x - n*y with the whole number n that leaves less than
// |y|. No step rounds, so all devices agree to the bit.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

// What truncated division leaves: as large as x at most, with its sign, NaN for an infinite x and for y = 0.
// Both have one float dtype and are not differentiated.
Tensor truncated_remainder(const Tensor& x, const Tensor& y);

}  // namespace lathe
