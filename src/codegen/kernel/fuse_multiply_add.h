// Contracts x*y + z to a fused multiply-add, which rounds once, on targets that have the instruction.
// Contraction happens only here (all compilers run with theirs off), so all printers for one target agree to
// the bit.
//
//   before   Add(Mul(a, b), c)        after   Fma(a, b, c)
//
// A product with another user is not fused, since it would be computed twice. If both operands are products,
// the choice is made before the options: options change index expressions, which order the operands, so the
// result would depend on the number of threads.
#pragma once

#include "ir/node.h"

namespace lathe {

// With `sums_only` just products that are added to an accumulator.
Node fuse_multiply_add(Node kernel, bool sums_only = false);

// Just sums of two products, in a kernel without options.
Node fuse_product_pairs(Node kernel);

}  // namespace lathe
