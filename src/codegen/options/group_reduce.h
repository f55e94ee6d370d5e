// A reduce divided among the threads of a group: each thread reduces its part and writes the result to shared
// memory, and after a barrier every thread reduces all parts. If there are many parts, some threads first
// combine several each, in a fixed order, followed by a second barrier. All threads take part and continue
// with the result, so the reduce may be inside another reduce; there a further barrier keeps the next step
// from overwriting parts that are still being read.
//
//   before   Reduce(Add, e, t, k)                                             t = Group 16, k = Reduce
//   after    bar = Barrier(Store(S, t, Reduce(Add, e, k)))
//            Reduce(Add, Load(After(S, bar), u), u)                           u = Unroll 16
//   and      only thread t == 0 stores to params, except in loops that t divides too
#pragma once

#include "ir/node.h"

namespace lathe {

Node group_reduce(Node kernel);

}  // namespace lathe
