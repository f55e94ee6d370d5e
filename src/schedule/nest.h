// The order of a kernel's output ranges: which of them stay parallel, and which run as loops inside, so that
// a reduce can be computed once for all their steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

class Nest {
 public:
  explicit Nest(std::span<const Node> outputs = {});

  // Puts these ranges outside all others. False, and no change, where that contradicts what was put outside
  // before: of two such sets one must hold the other.
  bool put_outside(std::span<const Node> ranges);

  // Whether these ranges are outside all others already.
  bool is_outside(std::span<const Node> ranges) const;

  double parallel_steps() const;  // of the ranges that are left parallel
  bool has_rows() const { return levels_.size() > 1; }
  std::vector<Node> order() const;  // outermost first

  // What each range that runs inside becomes: a Loop, numbered from `next_id` on in loop order.
  NodeMap<Node> loops(std::int64_t& next_id) const;

 private:
  std::vector<std::vector<Node>> levels_;  // outermost first; the first level is parallel
};

}  // namespace lathe
