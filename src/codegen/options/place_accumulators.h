// A reduce range outside of output ranges: its partial results are kept in memory, in an array over those
// output ranges.
//
//   before   list k0 m n k1:  End(Store(C, m*N + n, f(Reduce(Add, e, k0, k1))), m, n)
//   after    k0: m: n:      s = (k0 > 0 ? C[m*N + n] : 0) + Reduce(Add, e, k1)
//                           C[m*N + n] = k0 is the last ? f(s) : s
//
// The first step initializes the array and the last applies what follows the sum, so no extra pass over the
// array is needed. If there may be no step at all, a nest before initializes it; if what follows the sum has
// loops, or the array is not the output, that is a nest after.
//
// A reduce over a comparison with an output range inside it (scan_reduces.h) runs only the steps that count:
//
//   Reduce(Add, where(e(k) == v, x(k), 0), k)   v: C[v] = 0;   k: C[e(k)] += x(k) where e(k) is inside
//   Reduce(Add, where(k <= i, x(k), 0), k)      run = 0;       i: run += x(i), C[i] = f(run)
//
// The array is the output itself if it has the accumulator's dtype and the kernel does not read it, else
// scratch memory. If the output exceeds L2, the cache lines that a step adds to are prefetched before it
// sums.
#pragma once

#include "ir/node.h"
#include "pipeline/compile.h"

namespace lathe {

Node place_accumulators(Node kernel, const Compile& compile);

}  // namespace lathe
