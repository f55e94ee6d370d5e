// A reduce range that stands outside output ranges: its partial results live in memory, an array over those
// output ranges.
//
//   before   list k0 m n k1:  End(Store(C, m*N + n, f(Reduce(Add, e, k0, k1))), m, n)
//   after    k0: m: n:      s = (k0 > 0 ? C[m*N + n] : 0) + Reduce(Add, e, k1)
//                           C[m*N + n] = k0 is the last ? f(s) : s
//
// The first step sets the array and the last applies what follows the sum, so the array is never walked for
// its own sake. Where there may be no step at all, it is set in a nest before; where what follows the sum has
// loops of its own, or the array is not the output, that is a nest after.
//
// A reduce over a comparison with an output range inside it (walk_in_order.h) takes only the steps that
// count:
//
//   Reduce(Add, where(e(k) == v, x(k), 0), k)   v: C[v] = 0;   k: C[e(k)] += x(k) where e(k) is inside
//   Reduce(Add, where(k <= i, x(k), 0), k)      run = 0;       i: run += x(i), C[i] = f(run)
//
// The array is the output itself where its dtype is the accumulator's and the kernel reads no byte of it;
// else scratch. Where L2 does not hold the output, the lines a step adds to are prefetched
// before it sums.
#pragma once

#include "ir/node.h"
#include "pipeline/compile.h"

namespace lathe {

Node place_accumulators(Node kernel, const Compile& compile);

}  // namespace lathe
