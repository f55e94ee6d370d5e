// The tensor graph made ready for scheduling: what only gradients need is dropped, variables lose their
// bindings, constants are folded, long reduces with few outputs are split, copies move bases and not views.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "pipeline/compile.h"

namespace lathe {

struct Prepared {
  std::vector<Node> targets;
  std::vector<std::pair<Node, std::int64_t>> bindings;
};

// In an invariant compile long reduces with few outputs stay whole: what is few depends on the batch.
Prepared prepare(std::span<const Node> targets, const Compile& compile);

}  // namespace lathe
