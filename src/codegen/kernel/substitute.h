// Replacing ranges in kernel expressions. A range that a Reduce, Fold or End closes belongs to that node:
// inside it the same Range node is another variable, so a replacement from outside must not reach it.
#pragma once

#include <functional>

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

// The root with every free occurrence of the ranges in `map` replaced. Parts without such an occurrence are
// shared.
Node substitute_free(Node root, const NodeMap<Node>& map);

// The value where a gate may be false: its loads, those in indices too, give 0 there and its checks find no
// fault. Only loads and checks that `applies` holds for are gated.
Node under_gate(Node value, Node gate, const std::function<bool(Node)>& applies);

// One more than the largest id of any Define (or of any Range) below the root: where fresh ids start.
struct FreshIds {
  std::int64_t define = 0, range = 0, fold = 0;
};
FreshIds fresh_ids(Node root);

// Another copy of a value for another loop: as substitute_free, and every loop and memory inside that belongs
// to the value (its loops run within the replaced ranges) gets an id of its own, so that both copies can
// stand in one kernel.
Node copy_for_loop(Node root, const NodeMap<Node>& map, FreshIds& ids);

}  // namespace lathe
