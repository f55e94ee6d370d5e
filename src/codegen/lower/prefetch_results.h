// Results that L2 does not hold are prefetched, to be written, while their sums are computed: a store that
// has to wait for its line holds up the next products of a matrix unit. What is written when the sums of a
// loop are complete is rows of a few cache lines; each step of the loop takes some of the rows.
//
//   before   n: k: ...;   32 rows of two lines: Store(C, place + row*N ...)
//   after    n: k: Prefetch(C, place + k*N), Prefetch(C, place + k*N + 16), ...;   Store(C, ...) as before
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program prefetch_results(Program program, const Target& target);

}  // namespace lathe
