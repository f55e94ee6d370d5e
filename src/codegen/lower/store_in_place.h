// If a fragment of sums is stored to private memory, loaded from there row by row and stored unchanged, the
// matrix unit can write the rows to their destination itself.
//
//   before   Store(own, 0, sums)   %1 = Load(own, 0)    Store(C, place, %1)
//                                  %2 = Load(own, 16)   Store(C, place + N, %2) ...
//   after    Store [-1, 16, N] (C, place, sums)
#pragma once

#include "ir/program.h"

namespace lathe {

Program store_in_place(Program program);

}  // namespace lathe
