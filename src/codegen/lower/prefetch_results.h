// Prefetches results that exceed L2 for writing while their sums are computed: a store that waits for its
// cache line delays the next products of a matrix unit. The results of a loop are rows of a few cache lines;
// each step of the loop prefetches some of the rows.
//
//   before   n: k: ...;   32 rows of two lines: Store(C, place + row*N ...)
//   after    n: k: Prefetch(C, place + k*N), Prefetch(C, place + k*N + 16), ...;   Store(C, ...) as before
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program prefetch_results(Program program, const Target& target);

}  // namespace lathe
