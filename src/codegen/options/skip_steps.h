// Skips steps of a sum that only add zeros, if the bounds of such steps are known before the loop.
//
//   before   y: ky: kx: c:  s += W[ky, kx, c] * X[c, y + ky - 1, ..]        0 where y + ky - 1 is outside
//   after    y: ky: kx < (0 <= y + ky - 1 < n ? 3 : 0): c: ...
//
// So a convolution skips the rows of its border of zeros; an infinite or NaN weight is then not multiplied
// with them, as in other libraries. The conditions are those of gated loads. A panel stores its zeros and has
// no gate, so the conditions are collected before panels are made.

#pragma once

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

// Ranges of sums and what they become. The kernel has its final ranges, and its loads their gates.
NodeMap<Node> skipped_steps(Node kernel);

}  // namespace lathe
