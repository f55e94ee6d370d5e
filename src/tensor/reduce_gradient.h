// Gradients of reductions, for any way of grouping elements: axes of a tensor, or rows of unequal length.
#pragma once

#include <functional>

#include "ir/node.h"

namespace lathe {

struct Grouping {
  std::function<Node(Op, Node)> combined;  // the elements of each group, one value a group
  std::function<Node(Node)> of_element;    // what is known of a group, read at each of its elements
};

// The gradient for x of the groups' results `out`, where that of `out` is g; null for an op that has none.
Node grouped_gradient(Op op, Node g, Node x, Node out, const Grouping& groups);

}  // namespace lathe
