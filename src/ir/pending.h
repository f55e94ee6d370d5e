// What is still to be computed of a graph whose values were computed in part. Everybody who asks what running
// a graph reads and writes walks it in this way: what is not on it is not run.
#pragma once

#include <span>
#include <vector>

#include "ir/node.h"

namespace lathe {

// The operands a value is computed from: a Custom op is its expansion, and what it was applied to matters to
// gradients alone.
inline std::span<const Node> computed_from(Node node) {
  return node.is(Op::Custom) ? node.args().first(1) : node.args();
}

// What is visited in order to compute the roots, operands before users. Of what was computed, the node itself
// and nothing below it.
std::vector<Node> still_to_compute(std::span<const Node> roots);

}  // namespace lathe
