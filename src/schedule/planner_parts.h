// Small queries on reduces, loops and positions, shared by the planner's files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/small_vector.h"
#include "ir/node.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/shape.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "schedule/index_map.h"

namespace lathe {

inline bool is_tensor_reduce(Node n) { return n.is(Op::Reduce) && n.attr().kind == Attr::Kind::Data; }

inline std::span<const std::int64_t> reduce_axis_list(Node n) { return n.ints().subspan(1); }

inline double iterations(Node loops) {
  double n = 1;
  if (loops)
    for (Node r : loops.args()) n *= typical_extent(r);
  return n;
}

// How often a value at this index is computed: once for every turn of the innermost loop it depends on.
inline double turns(Node index, Node loops) {
  double all = 1, used = 1;
  if (!index || !loops) return 1;
  for (Node r : loops.args()) {
    all *= typical_extent(r);
    if (depends_on(index, r)) used = all;
  }
  return used;
}

inline bool divides(Node index) {
  const std::vector<Node> nodes = toposort(index);
  return std::any_of(nodes.begin(), nodes.end(), [](Node n) { return n.is(Op::FloorDiv); });
}

// The ranges of a root's position: one for every axis that needs one.
inline SmallVector<Node, 8> output_ranges(const Position& at) {
  SmallVector<Node, 8> out;
  if (at.index)
    for (Node i : at.index.args())
      if (i.is(Op::Range)) out.push_back(i);
  return out;
}

// The loops of a kernel that computes every position of `at`.
inline Node loops_of(const Position& at) { return dims(output_ranges(at)); }

// Every range a position depends on.
inline SmallVector<Node, 8> ranges_at(const Position& at) {
  SmallVector<Node, 8> out;
  for (Node part : {at.index, at.valid})
    if (part)
      for (Node r : ranges_of(part))
        if (!contains(out, r)) out.push_back(r);
  return out;
}

// The share of the turns of a sum's loops that are taken: a step whose position is outside the value is
// skipped where a loop outside the innermost output decides it (codegen/options/skip_steps.h), as in the
// gradient of a convolution, which has more positions than it has windows. Along the innermost output,
// positions are computed several at a time.
inline double share_taken(const Position& at, std::span<const Node> shape, Node innermost) {
  double share = 1;
  if (!at.valid) return share;
  for (std::size_t a = 0; a < shape.size(); ++a)
    for (const Term& t : linear(at.index.arg(a)).terms) {
      const bool steps = t.node.is(Op::Range) && (t.coefficient == 1 || t.coefficient == -1);
      if (!steps || t.node == innermost || !depends_on(at.valid, t.node)) continue;
      share *= std::min(1.0, static_cast<double>(shape[a].hi()) / typical_extent(t.node));
    }
  return share;
}

}  // namespace lathe
