// What a movement op does to an index: given the position asked of its output, the position to read of its
// input, and where that read is valid. This is all there is to a movement op: no kernel ever runs for one.
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
