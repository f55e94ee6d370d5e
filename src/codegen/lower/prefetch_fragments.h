// Fragments that each step of the loop around a sum reads again come from memory when the next outer loop
// advances, if L2 does not hold their panel. Each step of the sum therefore prefetches a part of what the
// same step will read then.
//
//   before   m: n: k: Load(x, m*K + k*256)
//   after    m: n: k: Prefetch(x, (m + 1)*K + k*256 + n's share of the lines), Load(x, m*K + k*256)
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program prefetch_fragments(Program program, const Target& target);

}  // namespace lathe
