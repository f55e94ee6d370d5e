// Removes a panel that is filled by copying rows unchanged and read only by a matrix unit: it merely makes
// the rows of a fragment contiguous. The unit reads strided rows as fast if they stay in L1, that is, if all
// of them fit and they do not compete for a few of its sets.
//
//   before   k', r: panel[k'*256 + r*16 ...] = A[(m*16 + r)*K + k'*32 ...];   n: k: Load(panel, k*256)
//   after    n: k: Pack(Load [-1, 16, K] (A, m*16*K + k*32))
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program read_in_place(Program program, const Target& target);

}  // namespace lathe
