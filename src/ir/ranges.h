// The ranges that a kernel expression depends on. A Reduce, Fold or End closes its ranges: they are free in
// its operands and bound in its users.
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

// How many steps a range has, for weighing costs: the most it can have. Where its ends are two loaded values
// for every step of other ranges, those are the ends of lists that share what they list, and it has the mean.
double typical_extent(Node range);

// All ranges below a root, free or bound, in order of id.
std::vector<Node> all_ranges(Node root);

}  // namespace lathe
