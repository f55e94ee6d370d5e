// When its fragments of sums are complete, a kernel converts and stores their rows one by one, and the matrix
// unit waits. The rows are left in memory of the kernel's own instead, each step of the next sum stores a few
// of them, and the last ones are stored at the end.
//
//   before   n: { k: sums += ...;   own = sums;   32 rows: C[place + row*N] = cast(own[row*16]) }
//   after    later = -1;
//            n: { k: { If(later >= 0) a few rows: C[later + to[row]] = cast(own[from[row]]);   sums += ... };
//                 own = sums;   later = place };
//            If(later >= 0) 32 rows: C[later + row*N] = cast(own[row*16])
//
// It is done where a kernel has one such sum and does nothing else with it, its steps have room (they do not
// read all the way from L2) and there are enough of them.
#pragma once

#include "ir/program.h"

namespace lathe {

Program defer_rows(Program program);

}  // namespace lathe
