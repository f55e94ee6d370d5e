// Recomputes a part of a graph. Equal expressions are one node, so recomputation needs inputs that are
// different nodes: copies in separate memory, which are made to depend on another value so that they are made
// later.
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
