// A reduce whose length is not a multiple of its lanes has a gate in every step, but only the last step needs
// it. That step is peeled off, and the loop then reads whole vectors without a mask:
//
//   before   Reduce(Add, Load(x, k0*8 + k1, k0*8 + k1 < 333), k0 < 42, k1 < 8)
//   after    Reduce(Add, Load(x, k0*8 + k1), k0 < 41, k1)
//            + Reduce(Add, Load(x, 328 + k1, 328 + k1 < 333), k1)
#pragma once

#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

// Every such reduce of the kernel with its last step apart, where that is little code.
Node peel_last_steps(Node kernel, const RuleChanges& changes);

}  // namespace lathe
