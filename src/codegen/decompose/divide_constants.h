// The step divide_constants, for targets whose compilers do not optimize a division by a constant: the
// division becomes a multiplication by the reciprocal, rounded so that the quotient is right for every number
// of the dtype. For example, with x uint32,  TruncDiv(x, 7)  becomes, with t the upper word of x *
// 0x24924925,
//
//   (t + ((x - t) >> 1)) >> 2
//
// and TruncMod(x, 7) is x minus 7 times that.
#pragma once

#include "ir/node.h"
#include "target/target.h"

namespace lathe {

Node divide_constants(Node kernel, const Target& target);

}  // namespace lathe
