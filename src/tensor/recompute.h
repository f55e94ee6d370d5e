// A part of a graph computed a second time. Equal expressions are one node, so computing something again
// takes inputs that are other nodes: copies in memory of their own, which can only be made when something
// else is known.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/node.h"

namespace lathe {

inline constexpr std::string_view kCheckpoint = "checkpoint";  // the name of such a Custom node

struct Recomputed {
  Node value;                // equal to the one given
  std::vector<Node> copies;  // of the inputs; the input itself where it has no gradient
  std::vector<Node> border;  // operands of what is computed again that are not
};

// `value` again, from copies of the inputs that are made after `after` is known. The bits are the same.
Recomputed recompute(Node value, std::span<const Node> inputs, Node after, std::string_view device);

}  // namespace lathe
