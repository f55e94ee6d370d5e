// PIPELINE: while one step of a loop is worked on, the lines that the next ones will read are fetched. What a
// step reads of a param is taken line by line, as many for each pass of the loops inside as come out evenly.
//
//   before   n: m: ... sum over k of A[m*K + k] * B[k*N + n*64 + lanes] ...         PIPELINE(n, 1)
//   after    n: m: { q: Prefetch(B, line (m*Q + q) of those that n + 1 reads) }, ... the same sum ...
//
// Many lines for each pass are spread over the steps of the sum:
//
//   after    n: m: k: acc += A[m*K + k] * (Prefetch(B, line m*Q + k*Q/K of those that n + 1 reads), B[...])
//
// In a reduce whose sums stay in registers each load of what is read once fetches for itself:
//
//   before   k: acc += A[m*K + k*64 + lanes] * x[k*64 + lanes]                       PIPELINE(k, 4)
//   after    k: acc += (Prefetch(A, m*K + (k + 4)*64), A[m*K + k*64 + lanes]) * x[k*64 + lanes]
//
// It changes no value. Loads whose place is itself loaded, and those of what the kernel writes, are not
// prefetched.
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
