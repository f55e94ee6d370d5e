// Stores with strided lanes whose vectors interleave in memory, as in a convolution with lanes along its
// channels: four vectors at a time, or two, are transposed, and each store then writes four contiguous
// elements.
//
//   before   Store(p, 0 8 16 24, x)   Store(p, 1 9 17 25, y)
//   after    %1 = Vec(x0 y0 x2 y2)   %2 = Vec(x1 y1 x3 y3)
//            Store(p, 0, Vec(%1 0 1))   Store(p, 8, Vec(%2 0 1))   Store(p, 16, Vec(%1 2 3)) ...
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program transpose_stores(Program program, const Target& target);

}  // namespace lathe
