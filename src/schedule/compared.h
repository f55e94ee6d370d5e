// A comparison may have the same value on both sides: an element and the maximum of its row (argmax,
// gradients of max and of pooling), or two elements of one row (sorting). It is only right if both sides have
// the same bits. But a sum rounds by the order of its steps, and x*y + z by whether it is contracted; both
// depend on the kernel. So such a value is computed once and stored, not recomputed by the kernel that
// compares it.
#pragma once

#include <span>

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

// The values of a prepared graph that are on both sides of a comparison and would round by the kernel that
// computes them. `uses` are the users of each node.
NodeMap<char> compared_values(std::span<const Node> order, const NodeMap<int>& uses);

// Realized values of a graph that are compared with what is made of the same values and not realized, or
// realized by another kernel: their bits would not fit, so they are to be computed again.
NodeMap<char> outdated_by_rounding(std::span<const Node> order);

}  // namespace lathe
