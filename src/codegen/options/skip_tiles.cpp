#include "codegen/options/skip_tiles.h"

#include <algorithm>
#include <cmath>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "rules/linear.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 8>;

bool is_float(Node n, double v) { return n.is_const() && n.dtype().is_float() && n.const_float() == v; }
bool is_positive(Node n) { return n.is_const() && n.dtype().is_float() && n.const_float() > 0; }

// What is known of a value where every score of the tile is -inf. The maximum m is kept; what was carried
// with it is 0 as long as m is -inf, so a factor exp2((m - ms) * c), with ms = m or 0 where that is -inf,
// keeps it.
struct Known {
  enum Kind : std::uint8_t {
    Nothing,
    Lowest,
    Zero,
    Kept,
    Finite,
    MinusFinite,
    Growth,
    Factor
  } kind = Nothing;
  std::int64_t component = 0;  // of Kept
  bool is(Kind k) const { return kind == k; }
};

class MaskedTile {
 public:
  MaskedTile(Node fold, std::span<const Node> order) : fold_(fold), count_(fold.ints()[1]) {
    for (Node n : order)
      if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Define)) {
        auto [value, fresh] = stored_.try_emplace(base_memory(n.arg(0)), n.arg(2));
        if (!fresh) *value = Node();
      }
  }

  // Whether such a tile leaves all that is carried as it is.
  bool changes_nothing() {
    for (std::int64_t i = 0; i < count_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!is_float(fold_.arg(at), i == 0 ? -INFINITY : 0)) return false;
      const Known next = known(fold_.arg(at + static_cast<std::size_t>(count_)));
      if (!next.is(Known::Kept) || next.component != i) return false;
    }
    return count_ > 0;
  }
  const Nodes& masks() const { return masks_; }  // that all hold for the tile

 private:
  Known known(Node n) {
    if (const Known* before = done_.find(n)) return *before;
    const Known found = find(n);
    done_.try_emplace(n, found);
    return found;
  }
  Known find(Node n) {
    switch (n.op()) {
      case Op::Carry:
        if (n.ints()[0] == fold_.ints()[0] && n.ints()[2] == 0) return {Known::Kept, n.ints()[1]};
        return {};
      case Op::Load: {
        const Node* value = stored_.find(base_memory(n.arg(0)));
        return value != nullptr && *value ? known(*value) : Known{};
      }
      case Op::Where: return choice(n);
      case Op::Cast: return known(n.arg(0)).is(Known::Zero) ? Known{Known::Zero} : Known{};
      case Op::Pack:
        for (Node part : n.args())
          if (!known(part).is(Known::Zero)) return {};
        return {Known::Zero};
      case Op::Dot:
        return known(n.arg(0)).is(Known::Zero) && is_float(n.arg(2), 0) ? Known{Known::Zero} : Known{};
      case Op::Reduce: {
        const Known element = known(n.arg(0));
        const bool same = reduce_op(n) == Op::Max ? element.is(Known::Lowest)
                                                  : reduce_op(n) == Op::Add && element.is(Known::Zero);
        return same ? element : Known{};
      }
      case Op::Neg: return known(n.arg(0)).is(Known::Finite) ? Known{Known::MinusFinite} : Known{};
      case Op::Exp2: {
        const Known x = known(n.arg(0));
        return x.is(Known::Lowest)   ? Known{Known::Zero}
               : x.is(Known::Growth) ? Known{Known::Factor}
                                     : Known{};
      }
      case Op::Sub: {
        const Known x = known(n.arg(0));
        if (!known(n.arg(1)).is(Known::Finite)) return {};
        if (x.is(Known::Lowest)) return x;
        return x.is(Known::Kept) && x.component == 0 ? Known{Known::Growth} : Known{};
      }
      case Op::Max:
      case Op::Add:
      case Op::Mul: {
        const Known one_way = pair(n.op(), n.arg(0), n.arg(1));
        return one_way.is(Known::Nothing) ? pair(n.op(), n.arg(1), n.arg(0)) : one_way;
      }
      default: return {};
    }
  }
  Known choice(Node n) {
    if (is_float(n.arg(1), -INFINITY)) {
      if (std::find(masks_.begin(), masks_.end(), n.arg(0)) == masks_.end()) masks_.push_back(n.arg(0));
      return {Known::Lowest};
    }
    Node test = n.arg(0);
    const bool finite = test.is(Op::Eq) && is_float(n.arg(1), 0) && test.arg(0) == n.arg(2) &&
                        is_float(test.arg(1), -INFINITY);
    const Known x = known(n.arg(2));
    return finite && x.is(Known::Kept) && x.component == 0 ? Known{Known::Finite} : Known{};
  }
  Known pair(Op op, Node a, Node b) {
    const Known x = known(a), y = known(b);
    const bool maximum = y.is(Known::Kept) && y.component == 0,
               carried = y.is(Known::Kept) && y.component > 0;
    if (op == Op::Max) return x.is(Known::Lowest) ? y : Known{};
    if (op == Op::Add) {
      if (x.is(Known::Lowest) && y.is(Known::MinusFinite)) return x;
      if (x.is(Known::MinusFinite) && maximum) return {Known::Growth};
      return x.is(Known::Zero) && carried ? y : Known{};
    }
    if (x.is(Known::Zero)) return x;
    const bool scaled = x.is(Known::Lowest) || x.is(Known::Growth) || x.is(Known::Finite);
    if (scaled && is_positive(b)) return x;
    return x.is(Known::Factor) && carried ? y : Known{};
  }

  Node fold_;
  std::int64_t count_;
  NodeMap<Node> stored_;  // by memory of the kernel's own; null where there are several stores
  NodeMap<Known> done_;
  Nodes masks_;
};

Node as_index(Node n) {
  constexpr std::int64_t kFits = std::int64_t{1} << 31;
  const bool exact = n.is(Op::Cast) && n.arg(0).dtype().is_index() && n.dtype().bits() >= 32 &&
                     n.arg(0).lo() >= 0 && n.arg(0).hi() < kFits;
  return exact ? n.arg(0) : Node();
}

// Loops around the whole fold, outside of the loop of its tiles; what is in registers is done for all of it
// at once.
bool is_around(Node r, Node tile, Node fold) {
  const RangeKind k = range_kind(r);
  std::span<const Node> free = ranges_of(fold);
  return std::find(free.begin(), free.end(), r) != free.end() && range_id(r) < range_id(tile) &&
         (k == RangeKind::Global || k == RangeKind::Thread || k == RangeKind::Loop);
}

// How many tiles have a score that x < y does not mask, x - y the greater the smaller the tile: null where
// that is not so.
Node tiles_needed(Node mask, Node tile, Node fold) {
  if (!mask.is(Op::Less)) return Node();
  Node x = as_index(mask.arg(0)), y = as_index(mask.arg(1));
  if (!x || !y) return Node();
  Linear apart = linear(x);
  apart.add(y, -1);
  // apart = most - width * tile, the most that it can be for whatever runs inside.
  Linear most;
  most.constant = apart.constant;
  std::int64_t width = 0;
  for (const Term& t : apart.terms) {
    std::span<const Node> ranges = ranges_of(t.node);
    if (t.node == tile)
      width = -t.coefficient;
    else if (depends_on(t.node, tile))
      return Node();
    else if (std::all_of(ranges.begin(), ranges.end(), [&](Node r) { return is_around(r, tile, fold); }))
      most.add_term(t.node, t.coefficient);
    else
      most.constant += std::max(t.coefficient * t.node.lo(), t.coefficient * t.node.hi());
  }
  if (width <= 0 || most.terms.empty()) return Node();
  // A score counts where apart >= 0.
  Node needed = floor_div(most.build(), index_const(width)) + index_const(1);
  needed = where(less(needed, tile.arg(0)), needed, tile.arg(0));
  return where(less(needed, index_const(0)), index_const(0), needed);
}

}  // namespace

NodeMap<Node> skipped_tiles(Node kernel) {
  NodeMap<Node> skipped;
  const std::vector<Node> order = toposort(kernel);
  for (Node fold : order) {
    if (!fold.is(Op::Fold) || closed_ranges(fold).size() != 1) continue;
    Node tile = closed_ranges(fold)[0];
    if (range_kind(tile) != RangeKind::Reduce || !tile.arg(0).is_const()) continue;
    MaskedTile masked(fold, order);
    if (!masked.changes_nothing() || masked.masks().size() != 1) continue;
    if (Node needed = tiles_needed(masked.masks()[0], tile, fold))
      skipped[tile] = range(needed, range_id(tile), RangeKind::Reduce);
  }
  return skipped;
}

}  // namespace lathe
