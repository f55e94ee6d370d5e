// Decodes floats from four bits, such as quantised weights, with a table of sixteen numbers, on targets with
// an instruction that selects lanes of a vector by the lower four bits of an index. This replaces a mask, an
// addition and a conversion. Integers of that size are exact, so the result is the same.
//
//   before   %4 = And.i32x16 (%3, 15)   %5 = Add.i32x16 (%4, -8)   %6 = Cast.f32x16 (%5)
//   after    %4 = Table.f32x16 [-8, -7, -6, ..., 7] (%3)
#pragma once

#include "ir/node.h"
#include "target/target.h"

namespace lathe {

Node small_tables(Node kernel, const Target& target);

}  // namespace lathe
