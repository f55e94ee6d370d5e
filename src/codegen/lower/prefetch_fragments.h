// Fragments that are read again in each step of the loop around a sum come from far away when the loop around
// that one takes its next step, where L2 does not hold the panel they are in. Each step of the sum therefore
// prefetches a part of what the same step will read then.
//
//   before   m: n: k: Load(x, m*K + k*256)
//   after    m: n: k: Prefetch(x, (m + 1)*K + k*256 + n's share of the lines), Load(x, m*K + k*256)
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program prefetch_fragments(Program program, const Target& target);

}  // namespace lathe
