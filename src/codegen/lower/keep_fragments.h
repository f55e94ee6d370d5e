// Chooses which fragments of a matrix unit stay in L1. One factor of a product is the same in the next step
// of the loop around the sum; the other is read once, would evict the first from L1, and so bypasses it. If
// the first factor does not fit L1 either, some of its steps stay and the others bypass L1, too.
//
//   before   n: k: sum += Load(x, k*256) * Load(y, n*K + k*256)
//   after    n: k: sum += Load(x, k*256) * Load [0] (y, n*K + k*256)       [32]: from the 32nd step of k on
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program keep_fragments(Program program, const Target& target);

}  // namespace lathe
