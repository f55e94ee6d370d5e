// A panel that is filled by copying rows as they are, and read by a matrix unit alone, only brings the rows
// of a fragment together. The unit reads strided rows just as well where they stay in L1: all of them fit
// there, and they do not share a few of its sets.
//
//   before   k', r: panel[k'*256 + r*16 ...] = A[(m*16 + r)*K + k'*32 ...];   n: k: Load(panel, k*256)
//   after    n: k: Pack(Load [-1, 16, K] (A, m*16*K + k*32))
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program read_in_place(Program program, const Target& target);

}  // namespace lathe
