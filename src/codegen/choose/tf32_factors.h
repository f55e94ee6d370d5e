// float32 products in tf32, if LATHE_TF32 is on and a matrix unit of the target can compute them. The
// kernel's graph itself rounds the factors to 11 significant bits (as_tf32 of ir/dot.h), so that a comparison
// of its results takes the rounding into account.
//
//   before   Reduce(Add, Load(A, m*64 + k) * Load(B, k*N + n), k)
//   after    Reduce(Add, as_tf32(Load(A, m*64 + k)) * as_tf32(Load(B, k*N + n)), k)
#pragma once

#include "ir/node.h"
#include "pipeline/compile.h"

namespace lathe {

// The kernel itself where its largest sum of products is none of float32 factors, or no unit takes it.
Node tf32_factors(Node kernel, const Compile& compile);

}  // namespace lathe
