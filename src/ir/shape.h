// Shapes of tensor-graph nodes. A shape is a Dims node over index expressions, so equal shapes are equal
// handles and a dim may be symbolic. The interner calls `shape_of` once, when a node is made.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ir/node.h"

namespace lathe {

// The Dims node of a node about to be made, or null for rank 0. Does not check that operands fit: verify
// does.
Node shape_of(Op op, DType dtype, std::span<const Node> args, const Attr& attr);

// A Dims node over these sizes (null when there are none).
Node dims(std::span<const Node> sizes);
Node dims(std::span<const std::int64_t> sizes);

// Number of elements: the product of the sizes, as an index expression; `numel_max` uses each size's upper
// bound.
Node numel(Node node);
std::int64_t numel_max(Node node);

std::string shape_text(std::span<const Node> shape);  // "(2, 3)"

}  // namespace lathe
