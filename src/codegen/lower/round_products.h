// Rounds sums of products to bfloat16 by one instruction, on targets whose instruction flushes subnormal
// numbers to zero. Units of bfloat16 products flush them, too, so the sums have none.
//
//   before   %5 = Load.f32x16 (an accumulator to which only products were stored)   %6 = Cast.bf16x16 (%5)
//   after    %5 = Load.f32x16 (an accumulator to which only products were stored)   %6 = Narrow.bf16x16 (%5)
#pragma once

#include "ir/node.h"
#include "target/target.h"

namespace lathe {

Node round_products(Node kernel, const Target& target);

}  // namespace lathe
