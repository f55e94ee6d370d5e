// Decompositions: what the target lacks, written with what it has. One bottom-up rewrite of a kernel whose
// reduces are already accumulators (values may have lanes). Afterwards:
//
//   * Exp2, Log2, Sin and Cos are gone (unless the target is REF): polynomials with the error bounds of
//   docs/numerics.md;
//   * half, bfloat16 and 8-bit floats that the target emulates are only loaded, stored, selected and bitcast:
//     arithmetic is done in float32 and rounded after each op, conversions are integer operations on the
//     bits. So a printer may hold such a value as an unsigned integer of its width, and Bitcast to that
//     integer is free;
//   * float to integer casts see only values that fit (the saturation is explicit), to int32 and int64 alone;
//   * on integers (indices apart) FloorDiv and FloorMod are gone, divisors are neither 0 nor a -1 that
//   overflows, and
//     shift counts are below the width;
//   * bool knows And, Or, Xor, Not, Where, Cast from bool; Recip is a division.
//
// Example, with `x` int32:  TruncDiv(x, y)  becomes
//   Where(y == 0, 0, Where(y == -1, x * -1, TruncDiv(x, Where(y == 0 or y == -1, 1, y)))).
//
// Every operation is spelt as one node, so all printers and REF agree to the bit. Fused multiply-adds are Fma
// nodes, used only where the target has them; a rule that contracts Mul and Add must run before this pass,
// never after it: the error terms kept here are exact only as written.
#pragma once

#include "ir/node.h"
#include "target/target.h"

namespace lathe {

Node decompose(Node root, const Target& target);

}  // namespace lathe
