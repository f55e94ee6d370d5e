// Prepares the tensor graph for scheduling: drops ops that only matter for gradients, removes the bindings of
// variables, folds constants, splits long reduces with few outputs, and makes copies take the base of a view.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "pipeline/compile.h"

namespace lathe {

struct PreparedGraph {
  std::vector<Node> targets;
  std::vector<std::pair<Node, std::int64_t>> bindings;
};

// In an invariant compile long reduces with few outputs are not split: which have few outputs depends on the
// batch.
PreparedGraph prepare_graph(std::span<const Node> targets, const Compile& compile);

}  // namespace lathe
