#include "codegen/kernel/panel_layout.h"

#include <algorithm>
#include <cstdlib>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

std::int64_t extent_of(Node range) { return std::max<std::int64_t>(range.arg(0).hi(), 1); }

// How an index moves with a range: evenly, by `stride`; else `stride` is that of the term the range is in.
struct Move {
  std::int64_t stride = 0;
  bool even = true;
};
Move move_of(const Linear& sum, Node range) {
  Move move;
  for (const Term& t : sum.terms) {
    if (t.node == range) {
      move.even &= move.stride == 0;
      move.stride = t.coefficient;
    } else if (depends_on(t.node, range)) {
      move.even = false;
      move.stride = t.coefficient;
    }
  }
  return move;
}

// The sums that a gate compares, as far as they depend on the ranges; `even` turns false where a gate depends
// on them in another way.
void compared_sums(Node gate, const Nodes& below, std::vector<Linear>& out, bool& even) {
  for (Node n : toposort(gate)) {
    if (n.dtype().is_index() ||
        !std::any_of(below.begin(), below.end(), [&](Node r) { return depends_on(n, r); }))
      continue;
    if (!n.is(Op::Less) && !n.is(Op::Eq) && !n.is(Op::Ne)) {
      bool logic = n.dtype().is_bool();
      for (Node a : n.args()) logic &= a.dtype().is_bool();
      even &= logic;
      continue;
    }
    for (Node a : n.args())
      if (a.dtype().is_index())
        out.push_back(linear(a));
      else
        even &= ranges_of(a).empty();
  }
}

// Casts, and bits that are turned in all elements alike.
Node behind_casts(Node value) {
  while (value.is(Op::Cast) || (value.is(Op::Xor) && value.arg(1).is_const())) value = value.arg(0);
  return value;
}

PanelAxis single(Node range, Move move) {
  PanelAxis axis;
  axis.ranges.push_back(range);
  axis.weights.push_back(1);
  axis.extent = extent_of(range);
  axis.stride = move.even ? move.stride : 0;
  return axis;
}

// The ranges as one axis where the source moves evenly with all of them, by whole multiples of one, and every
// comparison of the gate sees only their sum; else nothing.
bool join(const Nodes& ranges, const std::vector<Move>& moves, const std::vector<Linear>& compared,
          PanelAxis& axis) {
  axis = PanelAxis();
  std::size_t unit = ranges.size();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!moves[i].even || moves[i].stride == 0) return false;
    if (moves[i].stride > 0 &&
        (unit == ranges.size() || moves[i].stride < moves[unit].stride ||
         (moves[i].stride == moves[unit].stride && extent_of(ranges[i]) > extent_of(ranges[unit]))))
      unit = i;
  }
  if (unit == ranges.size()) return false;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (moves[i].stride % moves[unit].stride != 0) return false;
    std::int64_t weight = moves[i].stride / moves[unit].stride, reach = weight * (extent_of(ranges[i]) - 1);
    axis.ranges.push_back(ranges[i]);
    axis.weights.push_back(weight);
    axis.low += std::min<std::int64_t>(reach, 0);
    axis.extent += std::abs(reach);
  }
  axis.unit = unit;
  axis.stride = moves[unit].stride;
  for (const Linear& sum : compared) {
    Move first = move_of(sum, ranges[unit]);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      Move move = move_of(sum, ranges[i]);
      if (!move.even || move.stride != first.stride * axis.weights[i]) return false;
    }
  }
  return true;
}

// Which ranges belong together: those that a gate compares in one sum, and of the others those whose reach
// overlaps, so that several of their values lead to one element.
std::vector<int> families(const Nodes& below, const std::vector<Move>& moves,
                          const std::vector<Linear>& compared) {
  std::vector<int> family(below.size());
  std::vector<char> gated(below.size(), 0);
  for (std::size_t i = 0; i < below.size(); ++i) family[i] = static_cast<int>(i);
  auto unite = [&](std::size_t a, std::size_t b) {
    int from = family[b], to = family[a];
    for (int& f : family)
      if (f == from) f = to;
  };
  for (const Linear& sum : compared) {
    std::size_t first = below.size();
    for (std::size_t i = 0; i < below.size(); ++i) {
      if (move_of(sum, below[i]).stride == 0) continue;
      gated[i] = 1;
      if (first == below.size()) first = i;
      unite(first, i);
    }
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < below.size(); ++i)
    if (!gated[i] && moves[i].even && moves[i].stride != 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(moves[a].stride) < std::abs(moves[b].stride);
  });
  std::int64_t reach = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    std::int64_t stride = std::abs(moves[order[n]].stride);
    if (n > 0 && stride <= reach) unite(order[n - 1], order[n]);
    if (n > 0 && stride > reach) reach = 0;
    reach += stride * (extent_of(below[order[n]]) - 1);
  }
  return family;
}

}  // namespace

Node source_load(Node value) {
  value = behind_casts(value);
  if (value.is(Op::Pack)) {
    for (Node part : value.args())
      if (!behind_casts(part).is(Op::Load)) return Node();
    value = behind_casts(value.arg(0));
  }
  return value.is(Op::Load) ? value : Node();
}

std::int64_t packed_neighbours(Node value) {
  value = behind_casts(value);
  if (!value.is(Op::Pack) || !value.arg(0).is(Op::Load) || value.dtype().lanes > 1) return 1;
  Node first = value.arg(0);
  for (std::size_t i = 0; i < value.arg_count(); ++i) {
    Node part = value.arg(i);
    if (!part.is(Op::Load) || part.arg(0) != first.arg(0) || part.arg_count() != first.arg_count()) return 1;
    if (part.arg_count() > 2 && part.arg(2) != first.arg(2)) return 1;
    Linear apart = linear(part.arg(1));
    apart.add(first.arg(1), -1);
    if (!apart.terms.empty() || apart.constant != static_cast<std::int64_t>(i)) return 1;
  }
  return static_cast<std::int64_t>(value.arg_count());
}

namespace {

std::vector<Move> moves_of(Node value, Node source, const Nodes& below) {
  Linear index;
  if (source) index = linear(source.arg(1));
  std::vector<Move> moves;
  const std::int64_t words = packed_neighbours(value);
  for (Node r : below) {
    Move move = source ? move_of(index, r) : Move{0, false};
    move.even &= move.stride % words == 0;
    move.stride /= words;
    moves.push_back(move);
  }
  return moves;
}

struct Gates {
  std::vector<Linear> compared;
  bool even = true;
};
Gates gates_of(Node value, const Nodes& below) {
  Gates gates;
  for (Node n : toposort(value))
    if (n.is(Op::Load) && n.arg_count() > 2) compared_sums(n.arg(2), below, gates.compared, gates.even);
  return gates;
}

// An axis for each family, where it can be one, by how far apart neighbours are in the source.
std::vector<PanelAxis> family_axes(const Nodes& below, const std::vector<Move>& moves, const Gates& gates,
                                   std::vector<int> family) {
  std::vector<PanelAxis> axes;
  std::vector<std::int64_t> key;  // how far apart neighbours are in the source
  for (std::size_t i = 0; i < below.size(); ++i) {
    if (family[i] < 0) continue;
    Nodes together;
    std::vector<Move> their;
    std::vector<std::size_t> members;
    int name = family[i];
    for (std::size_t j = i; j < below.size(); ++j) {
      if (family[j] != name) continue;
      together.push_back(below[j]);
      their.push_back(moves[j]);
      members.push_back(j);
      family[j] = -1;
    }
    PanelAxis axis;
    if (together.size() > 1 && gates.even && join(together, their, gates.compared, axis)) {
      axes.push_back(axis);
      key.push_back(axis.stride);
      continue;
    }
    for (std::size_t j : members) {
      axes.push_back(single(below[j], moves[j]));
      key.push_back(std::abs(moves[j].stride));
    }
  }
  std::vector<std::size_t> sorted(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) sorted[i] = i;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](std::size_t a, std::size_t b) { return key[a] > key[b]; });
  std::vector<PanelAxis> out;
  for (std::size_t i : sorted) out.push_back(axes[i]);
  return out;
}

bool is_reduce(Node range) {
  return range_kind(range) == RangeKind::Reduce || range_kind(range) == RangeKind::Unroll ||
         range_kind(range) == RangeKind::Group;
}

// Ranges of which one goes on where the other ends, outputs with outputs and reduces with reduces, are digits
// of one coordinate: `from` are the ranges that have no axis yet.
std::vector<PanelAxis> digit_axes(const Nodes& below, const std::vector<Move>& moves,
                                  std::vector<char> from) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < below.size(); ++i)
    if (from[i]) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return moves[a].stride < moves[b].stride; });
  std::vector<PanelAxis> axes;
  for (std::size_t first : order) {
    if (!from[first]) continue;
    from[first] = 0;
    PanelAxis axis = single(below[first], moves[first]);
    for (std::size_t i : order) {
      if (!from[i] || axis.stride <= 0 || !moves[i].even || !below[first].arg(0).is_const() ||
          !below[i].arg(0).is_const() || is_reduce(below[i]) != is_reduce(below[first]) ||
          moves[i].stride != axis.stride * axis.extent)
        continue;
      axis.ranges.push_back(below[i]);
      axis.weights.push_back(axis.extent);
      axis.extent *= extent_of(below[i]);
      axis.digits = true;
      from[i] = 0;
    }
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

std::vector<PanelAxis> panel_axes(Node value, const Nodes& below, PanelOrder order) {
  Node source = source_load(value);
  const std::vector<Move> moves = moves_of(value, source, below);
  if (order == PanelOrder::Source && source) {
    const Gates gates = gates_of(value, below);
    return family_axes(below, moves, gates, families(below, moves, gates.compared));
  }
  std::vector<PanelAxis> axes;
  for (std::size_t i = 0; i < below.size(); ++i) axes.push_back(single(below[i], moves[i]));
  return axes;
}

std::vector<PanelAxis> shared_axes(Node value, const Nodes& below, PanelOrder order) {
  Node source = source_load(value);
  const std::vector<Move> moves = moves_of(value, source, below);
  std::vector<PanelAxis> axes;
  std::vector<char> left(below.size(), 1);
  const bool lengths_known =
      std::all_of(below.begin(), below.end(), [](Node r) { return r.arg(0).is_const(); });
  if (order == PanelOrder::Source && source && lengths_known) {
    for (const PanelAxis& axis : panel_axes(value, below, order)) {
      std::int64_t places = 1;  // more than the axis has where several of them are one element
      for (Node r : axis.ranges) places *= extent_of(r);
      if (axis.ranges.size() < 2 || places <= axis.extent) continue;
      axes.push_back(axis);
      for (std::size_t i = 0; i < below.size(); ++i)
        left[i] &= std::find(axis.ranges.begin(), axis.ranges.end(), below[i]) == axis.ranges.end();
    }
  }
  for (const PanelAxis& axis : digit_axes(below, moves, left)) axes.push_back(axis);
  if (order == PanelOrder::Source) {
    std::stable_sort(axes.begin(), axes.end(), [](const PanelAxis& a, const PanelAxis& b) {
      return std::abs(a.stride) > std::abs(b.stride);
    });
    return axes;
  }
  // What a thread holds in registers is last in the list of ranges: there it reads whole pieces.
  auto last = [](const PanelAxis& axis) {
    std::int64_t id = 0;
    for (Node r : axis.ranges) id = std::max(id, range_id(r));
    return id;
  };
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const PanelAxis& a, const PanelAxis& b) { return last(a) < last(b); });
  return axes;
}

std::vector<PanelAxis> matrix_axes(Node value, const Nodes& below, std::span<const RangePlace> places) {
  const std::vector<Move> moves = moves_of(value, source_load(value), below);
  struct Part {
    std::int64_t weight;
    std::size_t which;  // of the ranges below
  };
  std::vector<std::vector<Part>> parts;  // by range of the kernel as scheduled
  // Threads that several ranges share are a part of the one that others of the value's ranges belong to.
  std::vector<int> known;
  for (Node r : below) {
    int origin = -1;
    std::size_t count = 0;
    for (const RangePlace& p : places)
      if (p.range == r) origin = p.origin, ++count;
    if (count == 1) known.push_back(origin);
  }
  for (std::size_t i = 0; i < below.size(); ++i) {
    auto place = std::find_if(places.begin(), places.end(), [&](const RangePlace& p) {
      return p.range == below[i] && std::find(known.begin(), known.end(), p.origin) != known.end();
    });
    if (place == places.end())
      place = std::find_if(places.begin(), places.end(),
                           [&](const RangePlace& p) { return p.range == below[i]; });
    if (place == places.end() || !below[i].arg(0).is_const()) return {};
    const auto origin = static_cast<std::size_t>(place->origin);
    if (parts.size() <= origin) parts.resize(origin + 1);
    parts[origin].push_back({place->weight, i});
  }
  std::vector<PanelAxis> axes;
  for (std::vector<Part>& of_one : parts) {
    if (of_one.empty()) continue;
    std::sort(of_one.begin(), of_one.end(), [](const Part& a, const Part& b) { return a.weight < b.weight; });
    PanelAxis axis;
    axis.digits = true;
    axis.stride = moves[of_one[0].which].stride;
    for (const auto& [weight, which] : of_one) {
      if (weight != axis.extent) return {};
      if (!moves[which].even || moves[which].stride != axis.stride * weight) axis.stride = 0;
      axis.ranges.push_back(below[which]);
      axis.weights.push_back(weight);
      axis.extent *= extent_of(below[which]);
    }
    axes.push_back(axis);
  }
  return axes;
}

void join_last_axes(Node value, std::vector<PanelAxis>& axes, std::int64_t lanes) {
  Node source = source_load(value);
  if (!source || source.arg_count() > 2 || packed_neighbours(value) > 1) return;
  while (axes.size() > 1 && axes.back().stride == 1 && axes.back().extent % lanes != 0) {
    const PanelAxis &outer = axes[axes.size() - 2], &inner = axes.back();
    if (outer.stride != inner.extent) return;
    PanelAxis both = outer;
    for (std::int64_t& w : both.weights) w *= inner.extent;
    both.low = outer.low * inner.extent + inner.low;
    both.extent = outer.extent * inner.extent;
    both.stride = 1;
    both.unit = outer.ranges.size() + inner.unit;
    both.ranges.append(inner.ranges.begin(), inner.ranges.end());
    both.weights.append(inner.weights.begin(), inner.weights.end());
    axes.pop_back();
    axes.back() = both;
  }
}

}  // namespace lathe
