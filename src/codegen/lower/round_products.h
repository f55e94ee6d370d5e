// Sums of products rounded to bfloat16 by one instruction, where the target has one that takes numbers below
// the smallest normal one for zero: units of bfloat16 products do the same, so that there are none.
//
//   before   %5 = Load.f32x16 (an accumulator to which only products were stored)   %6 = Cast.bf16x16 (%5)
//   after    %5 = Load.f32x16 (an accumulator to which only products were stored)   %6 = Narrow.bf16x16 (%5)
#pragma once

#include "ir/node.h"
#include "target/target.h"

namespace lathe {

Node round_products(Node kernel, const Target& target);

}  // namespace lathe
