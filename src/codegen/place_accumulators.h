// A reduce range that stands outside output ranges: its partial results live in memory, an array over those
// output ranges.
//
//   before   list k0 m n k1:  End(Store(C, m*N + n, f(Reduce(Add, e, k0, k1))), m, n)
//   after    m, n:          C[m*N + n] = 0
//            k0: m: n:      C[m*N + n] = C[m*N + n] + Reduce(Add, e, k1)
//            m, n:          C[m*N + n] = f(C[m*N + n])                      (left out where f changes
//            nothing)
//
// The array is the output itself where its dtype is the accumulator's and the kernel reads no byte of it;
// else scratch.
#pragma once

#include "ir/node.h"

namespace lathe {

Node place_accumulators(Node kernel);

}  // namespace lathe
