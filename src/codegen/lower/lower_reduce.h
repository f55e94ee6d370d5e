// Reduces become loops over accumulators.
//
//   before   Store(out, m, Reduce(Add, Load(x, m*K + k), k))
//   after    init   = Store(After(acc, m), 0, 0)
//            inside = After(acc, init, k)
//            update = Store(inside, 0, Load(inside, 0) + Load(x, m*K + k))
//            Store(out, m, Load(After(acc, End(update, k)), 0))
//
// Reduces over the same ranges in the same scope share one loop: a register tile of 14 x 2 accumulators is
// one loop over k. A range that two loops would open is renamed in the second one, so that in what follows
// every Range is one loop.
#pragma once

#include "ir/node.h"

namespace lathe {

Node lower_reduce(Node kernel);

}  // namespace lathe
