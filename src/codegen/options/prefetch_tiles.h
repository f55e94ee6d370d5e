// PIPELINE: during one step of a loop, the cache lines of later steps are prefetched. The lines that a step
// reads of a param are divided evenly among the iterations of the loops inside.
//
//   before   n: m: ... sum over k of A[m*K + k] * B[k*N + n*64 + lanes] ...         PIPELINE(n, 1)
//   after    n: m: { q: Prefetch(B, line (m*Q + q) of those that n + 1 reads) }, ... the same sum ...
//
// Many lines per iteration are spread over the steps of the sum:
//
//   after    n: m: k: acc += A[m*K + k] * (Prefetch(B, line m*Q + k*Q/K of those that n + 1 reads), B[...])
//
// In a reduce whose sums stay in registers, each load of data that is read once prefetches its own next line:
//
//   before   k: acc += A[m*K + k*64 + lanes] * x[k*64 + lanes]                       PIPELINE(k, 4)
//   after    k: acc += (Prefetch(A, m*K + (k + 4)*64), A[m*K + k*64 + lanes]) * x[k*64 + lanes]
//
// No value changes. Loads at a loaded index, and loads of memory that the kernel writes, are not prefetched.
#pragma once

#include <span>

#include "ir/node.h"

namespace lathe {

struct Pipelined {
  int position;  // id of the range
  std::int64_t depth;
};

// On a kernel as options leave it, panels and all.
Node prefetch_tiles(Node kernel, std::span<const Pipelined> loops);

}  // namespace lathe
