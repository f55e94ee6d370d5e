// Evaluates a scalar expression on many inputs at once: each node is computed for a whole block before the
// next, with the `value` column of ops.def on native types. Fast enough to try every float. Small floats are
// held as their bits, as the printers hold them, so an op that computes on one is an error here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe::testing {

// Values of one dtype as raw bits, one uint64 each.
using Block = std::vector<std::uint64_t>;

class BlockEvaluator {
 public:
  // `inputs` are leaves of `root` (any node), in the order their blocks are given.
  BlockEvaluator(Node root, std::span<const Node> inputs);
  const Block& run(std::span<const Block> inputs);

 private:
  struct Step {
    Node node;
    std::vector<std::size_t> args;  // places of the operands
  };
  std::vector<Step> steps_;
  std::vector<Block> values_;
  std::size_t inputs_;
};

}  // namespace lathe::testing
