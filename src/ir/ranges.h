// Which ranges a kernel expression depends on. A Reduce, Fold or End closes its ranges: they are free below
// it and bound above.
#pragma once

#include <span>
#include <vector>

#include "ir/node.h"

namespace lathe {

// The free ranges of a node, in order of id. Remembered per node.
std::span<const Node> ranges_of(Node node);
bool depends_on(Node node, Node range);

// The ranges that a Reduce, Fold or End closes (in operand order), else none.
std::span<const Node> closed_ranges(Node node);

// All ranges below a root, free or bound, in order of id.
std::vector<Node> all_ranges(Node root);

}  // namespace lathe
