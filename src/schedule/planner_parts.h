// Small questions that all of the planner asks about reduces, loops and positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/small_vector.h"
#include "ir/node.h"
#include "ir/ranges.h"
#include "ir/shape.h"
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

inline bool contains(std::span<const Node> list, Node n) {
  return std::find(list.begin(), list.end(), n) != list.end();
}

// Every range a position depends on.
inline SmallVector<Node, 8> ranges_at(const Position& at) {
  SmallVector<Node, 8> out;
  for (Node part : {at.index, at.valid})
    if (part)
      for (Node r : ranges_of(part))
        if (!contains(out, r)) out.push_back(r);
  return out;
}

}  // namespace lathe
