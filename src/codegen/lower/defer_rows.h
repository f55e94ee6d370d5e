// A kernel converts and stores the rows of its finished fragments of sums one by one, while the matrix unit
// waits. This step keeps the rows in private memory instead: each step of the next sum stores a few of them,
// and the last ones are stored at the end.
//
//   before   n: { k: sums += ...;   own = sums;   32 rows: C[place + row*N] = cast(own[row*16]) }
//   after    later = -1;
//            n: { k: { If(later >= 0) a few rows: C[later + to[row]] = cast(own[from[row]]);   sums += ... };
//                 own = sums;   later = place };
//            If(later >= 0) 32 rows: C[later + row*N] = cast(own[row*16])
//
// It applies if the kernel has one such sum that it only converts and stores, and the sum has enough steps,
// which do not all wait for L2.
#pragma once

#include "ir/program.h"

namespace lathe {

Program defer_rows(Program program);

}  // namespace lathe
