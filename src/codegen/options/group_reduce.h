// A reduce spread over the threads of a group: each thread reduces its part, writes it to shared memory, and
// after a barrier every thread reduces all parts; where these are many, some threads first combine several
// parts each, in a fixed order, and after a second barrier there are fewer. All threads take part and go on
// with the result, so it may stand inside another reduce; there a second barrier keeps the next step from
// overwriting parts that are still being read.
//
//   before   Reduce(Add, e, t, k)                                             t = Group 16, k = Reduce
//   after    bar = Barrier(Store(S, t, Reduce(Add, e, k)))
//            Reduce(Add, Load(After(S, bar), u), u)                           u = Unroll 16
//   and      stores to params are done by thread t == 0 alone, but for those in a loop that t divides too
#pragma once

#include "ir/node.h"

namespace lathe {

Node group_reduce(Node kernel);

}  // namespace lathe
