// Small queries on ranges: whether a range is in a list, and what its steps become (lanes, threads, loops).
#pragma once

#include <algorithm>
#include <span>

#include "ir/build.h"
#include "ir/node.h"

namespace lathe {

inline bool contains(std::span<const Node> list, Node n) {
  return std::find(list.begin(), list.end(), n) != list.end();
}

// Its steps are copies or lanes: there is no loop.
inline bool in_registers(RangeKind kind) { return kind == RangeKind::Upcast || kind == RangeKind::Unroll; }
inline bool in_registers(Node range) { return in_registers(range_kind(range)); }

// Its steps are threads of a group.
inline bool in_group(RangeKind kind) { return kind == RangeKind::Local || kind == RangeKind::Group; }
inline bool in_group(Node range) { return in_group(range_kind(range)); }

}  // namespace lathe
