// Products of float32 numbers in tf32, where that is asked for (LATHE_TF32) and a matrix unit of the target
// then does them: their factors are cut off to 11 significant bits, so that the kernel says itself what is
// computed, and whoever compares its results knows it.
//
//   before   Reduce(Add, Load(A, m*64 + k) * Load(B, k*N + n), k)
//   after    Reduce(Add, as_tf32(Load(A, m*64 + k)) * as_tf32(Load(B, k*N + n)), k)        as_tf32 of
//   ir/dot.h
#pragma once

#include "ir/node.h"
#include "pipeline/compile.h"

namespace lathe {

// The kernel itself where its largest sum of products is none of float32 factors, or no unit takes it.
Node tf32_factors(Node kernel, const Compile& compile);

}  // namespace lathe
