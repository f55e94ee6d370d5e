// Stores that need a branch, because of a scalar gate or an unknown alignment (stream_stores.h), share one
// branch, and strided stores become adjacent, so that printers see tiles. A store is delayed until something
// could observe it: a store of another kind or possibly to the same address, a read of the memory, or the end
// of the block.
//
//   before   Store(p, i, x, gate)   %4 = Load(q, i)   %5 = Mul(%4, 2)   Store(p, i + 8, %5, gate)
//   after    %4 = Load(q, i)   %5 = Mul(%4, 2)   If(gate)   Store(p, i, x)   Store(p, i + 8, %5)   EndIf
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program join_stores(Program program, const Target& target);

}  // namespace lathe
