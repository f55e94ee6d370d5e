// Stores that take a branch, because of a scalar gate or of where memory begins (stream_stores.h), share one;
// strided stores stand together, so that what prints them sees tiles. They are kept back until something
// comes that might tell: a store of another kind or perhaps to the same place, a read of what they write, the
// border of a block.
//
//   before   Store(p, i, x, gate)   %4 = Load(q, i)   %5 = Mul(%4, 2)   Store(p, i + 8, %5, gate)
//   after    %4 = Load(q, i)   %5 = Mul(%4, 2)   If(gate)   Store(p, i, x)   Store(p, i + 8, %5)   EndIf
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program join_stores(Program program, const Target& target);

}  // namespace lathe
