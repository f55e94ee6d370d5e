// Steps of a sum that add nothing but zeros are not taken, where a whole loop of them is known from outside.
//
//   before   y: ky: kx: c:  s += W[ky, kx, c] * X[c, y + ky - 1, ..]        0 where y + ky - 1 is outside
//   after    y: ky: kx < (0 <= y + ky - 1 < n ? 3 : 0): c: ...
//
// So a convolution does not multiply its border of zeros, row by row; a weight that is infinite or no number
// does not meet them then, as in the libraries. The conditions are those of gated
// loads; a panel has its zeros stored and no gate, so they are noted before panels are made.
#pragma once

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

// Ranges of sums and what they become. The kernel has its final ranges, and its loads their gates.
NodeMap<Node> skipped_steps(Node kernel);

}  // namespace lathe
