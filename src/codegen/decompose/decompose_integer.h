// Integer division and shifts without the cases a machine traps on or leaves open: division by 0 gives 0, the
// smallest integer divided by -1 wraps, counts from the width on shift everything out. What bounds exclude
// costs nothing.
#pragma once

#include "ir/node.h"

namespace lathe {

Node decompose_division(Op op, Node x, Node y);  // FloorDiv, FloorMod, TruncDiv, TruncMod
Node decompose_shift(Op op, Node x, Node y);     // Shl, Shr

}  // namespace lathe
