// Contraction as a rule of ours: x*y + z rounds once where the target has the instruction. It happens here
// and nowhere else (every compiler below runs with its own contraction off), so all printers for one target
// agree to the bit.
//
//   before   Add(Mul(a, b), c)        after   Fma(a, b, c)
//
// A product with another user stays: it would be computed twice. Where both operands are products, which one
// is fused is decided before the options: they change index expressions, which order the operands, and so a
// result would depend on the number of threads.
#pragma once

#include "ir/node.h"

namespace lathe {

// With `sums_only` just products that are added to an accumulator.
Node fuse_multiply_add(Node kernel, bool sums_only = false);

// Just sums of two products, in a kernel without options.
Node fuse_product_pairs(Node kernel);

}  // namespace lathe
