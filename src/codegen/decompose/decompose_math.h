// Exp2, Log2, Sin and Cos on float32 and float64 as straight lines of arithmetic that vectorise: no tables in
// memory, no branches. docs/numerics.md has the error bounds; scripts/fit_polynomials.py derives every
// constant.
#pragma once

#include "ir/node.h"

namespace lathe {

// `op` is one of the four; `fma` and `scales` say whether Fma nodes, and Fraction and Scale of float32, may
// be used.
Node decompose_math(Op op, Node x, bool fma, bool scales);

}  // namespace lathe
