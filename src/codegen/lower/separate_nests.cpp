#include "codegen/lower/separate_nests.h"

#include <algorithm>

#include "base/small_vector.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {

Node separate_nests(Node kernel) {
  if (kernel.arg_count() < 2) return kernel;
  NodeMap<Node> outside;  // range -> the next range out of it, null for an outermost one
  SmallVector<Node, 16> effects;
  for (Node effect : kernel.args()) {
    SmallVector<Node, 8> ranges(closed_ranges(effect).begin(), closed_ranges(effect).end());
    std::sort(ranges.begin(), ranges.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
    bool clash = false;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const Node* known = outside.find(ranges[i]);
      clash |= known != nullptr && *known != (i == 0 ? Node() : ranges[i - 1]);
    }
    if (clash) {
      FreshIds ids = fresh_ids(kernel);
      for (Node other : effects) {
        FreshIds more = fresh_ids(other);
        ids.range = std::max(ids.range, more.range), ids.define = std::max(ids.define, more.define);
      }
      NodeMap<Node> map;
      for (Node& r : ranges) {
        Node own = range(r.arg(0), ids.range++, range_kind(r));
        map.try_emplace(r, own);
        r = own;
      }
      effect = end(copy_for_loop(effect.arg(0), map, ids), ranges);
    }
    for (std::size_t i = 0; i < ranges.size(); ++i)
      outside.try_emplace(ranges[i], i == 0 ? Node() : ranges[i - 1]);
    effects.push_back(effect);
  }
  return sink(effects);
}

}  // namespace lathe
