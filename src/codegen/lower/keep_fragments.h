// What the fragments of a matrix unit leave in L1. Of the two factors of a product one is the same in the
// next step of the loop around the sum; the other is read once, would push the first out of L1 and is read
// past it. Where the first one does not fit there either, some steps of it stay and the others are read past
// L1 too.
//
//   before   n: k: sum += Load(x, k*256) * Load(y, n*K + k*256)
//   after    n: k: sum += Load(x, k*256) * Load [0] (y, n*K + k*256)       [32]: from the 32nd step of k on
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program keep_fragments(Program program, const Target& target);

}  // namespace lathe
