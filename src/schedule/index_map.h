// The effect of a movement op on an index: maps a position of its output to the position of its input to
// read, and says where that read is valid. A movement op is nothing more: no kernel runs for one.
#pragma once

#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

// A position in a tensor: one index expression an axis (a Dims node, null for rank 0), and a condition under
// which it may be read (null: always).
struct Position {
  Node index;
  Node valid;
  bool operator==(const Position&) const = default;
};

// The position in `movement`'s input for a position in its output.
Position map_position(Node movement, const Position& out, Rewriter& rewriter);

// The position in a tensor of shape `to` that holds the same element, in row-major order, as `index` in shape
// `from`.
Node reshape_index(std::span<const Node> from, std::span<const Node> to, std::span<const Node> index,
                   Rewriter& rewriter);

// The element number in memory: row-major, with strides fixed by the largest size of each axis.
Node flat_index(std::span<const Node> shape, std::span<const Node> index, Rewriter& rewriter);

// Both conditions (null: always true).
Node both(Node a, Node b, Rewriter& rewriter);

}  // namespace lathe
