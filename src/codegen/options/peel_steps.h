// A reduce whose length is no multiple of its lanes has a gate in every step, though only the last one needs
// it. That step stands behind the loop, which then reads whole vectors without a mask:
//
//   Reduce(Add, Load(x, k0*8 + k1, k0*8 + k1 < 333), k0 < 42, k1 < 8)
//   becomes  Reduce(Add, Load(x, k0*8 + k1), k0 < 41, k1) + Reduce(Add, Load(x, 328 + k1, 328 + k1 < 333),
//   k1)
#pragma once

#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

// Every such reduce of the kernel with its last step apart, where that is little code.
Node peel_last_steps(Node kernel, const RuleChanges& changes);

}  // namespace lathe
