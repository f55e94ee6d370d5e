#include "codegen/options/place_accumulators.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "base/small_vector.h"
#include "codegen/kernel/lanes.h"
#include "codegen/kernel/scan_reduces.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

bool by_id(Node a, Node b) { return range_id(a) < range_id(b); }
bool is_parallel(Node range) {
  RangeKind k = range_kind(range);
  return k == RangeKind::Local || k == RangeKind::Thread || k == RangeKind::Group;
}

// Whether some range of the reduce is outside an output loop the reduce runs in.
bool is_outside(Node reduce) {
  std::int64_t first =
      range_id(*std::min_element(closed_ranges(reduce).begin(), closed_ranges(reduce).end(), by_id));
  for (Node r : ranges_of(reduce))
    if (range_id(r) > first && !in_registers(r) && !is_parallel(r)) return true;
  return false;
}

class AccumulatorPlacer {
 public:
  AccumulatorPlacer(Node kernel, const std::vector<Node>& order, std::int64_t cache, const Compile& compile)
      : kernel_(kernel),
        order_(order),
        ids_(fresh_ids(kernel)),
        cache_(cache),
        groups_(compile.target.groups),
        rules_(compile.rules) {}

  Node place(Node effect, Node reduce) {
    Node store_node = effect.arg(0);
    const Ranges ranges = ranges_by_place(effect, reduce);
    if (ranges.above.size() == 1 && ranges.rest.empty())
      for (Node o : ranges.inner)
        if (std::optional<RunningStep> run = in_registers(o) ? std::nullopt : running_step(reduce, o, rules_))
          return place_running(store_node, reduce, *run, o, ranges.inner, ranges.outer, ranges.repeated);
    const Sums sums = sums_of(store_node, reduce, closed_ranges(effect), ranges);
    const Edges edges = edges_of(ranges);
    Node init = edges.first ? Node() : cleared(sums, reduce, ranges);
    const Body body = body_of(reduce, ranges, sums, edges, init);
    auto stored = [&](Node value) {
      return end(store(body.memory, body.index, value, body.gate), body.ranges);
    };
    if (sums.in_output && store_node.arg(2) == reduce) return end(stored(body.sum), ranges.outer);
    if (sums.in_output && edges.last && is_plain(store_node.arg(2), reduce)) {
      Node last = at(edges.last, body.map);
      Node finished = finish(at(store_node.arg(2), body.map), at(reduce, body.map), body.sum, last);
      return end(stored(where(last, finished, body.sum)), ranges.outer);
    }
    Node complete = stored(body.sum);
    Nodes closing(ranges.outputs), end_ranges;
    NodeMap<Node> end_map = clone(ranges.inner, end_ranges);
    NodeMap<Node> value;
    value.try_emplace(reduce, load(after(sums.memory, {&complete, 1}), sums.index, sums.gate));
    Node last_store = copy_for_loop(substitute(store_node, value), end_map, ids_);
    for (Node& o : closing)
      if (const Node* to = end_map.find(o)) o = *to;
    return end(last_store, closing);
  }

  const Nodes& more_effects() const { return more_; }

 private:
  // The ranges of a store and of its reduce, by where they are.
  struct Ranges {
    Nodes outputs;  // all of the store's
    // Output ranges above the first reduce range; those below it, which the array runs over; those below it
    // that the reduce is the same for.
    Nodes outer, inner, repeated;
    Nodes above, rest;  // reduce ranges outside the array's loops; those inside
    std::optional<SelectedRow> selected;
    Node row;  // the range of which each step changes one value
  };
  static Ranges ranges_by_place(Node effect, Node reduce) {
    Ranges out;
    const std::span<const Node> closed = closed_ranges(effect), reduces = closed_ranges(reduce);
    out.outputs = Nodes(closed.begin(), closed.end());
    Nodes reduced(reduces.begin(), reduces.end());
    std::sort(out.outputs.begin(), out.outputs.end(), by_id);
    std::sort(reduced.begin(), reduced.end(), by_id);
    std::int64_t first = range_id(reduced[0]), last = first;
    for (Node o : out.outputs) {
      bool below = !is_parallel(o) && (range_id(o) > first || in_registers(o));
      (!below ? out.outer : depends_on(reduce, o) ? out.inner : out.repeated).push_back(o);
      if (below && !in_registers(o)) last = std::max(last, range_id(o));
    }
    for (Node r : reduced) (range_id(r) < last && !in_registers(r) ? out.above : out.rest).push_back(r);
    for (std::size_t i = 0; out.rest.empty() && !out.selected && i < out.inner.size(); ++i)
      if (!in_registers(out.inner[i])) out.selected = selected_row(reduce, out.row = out.inner[i]);
    return out;
  }

  // Where sums are kept between the steps of the ranges above them.
  struct Sums {
    Node memory, index, gate;
    bool in_output;  // where the result belongs in the end
  };
  Sums sums_of(Node store_node, Node reduce, std::span<const Node> closed, const Ranges& ranges) {
    Node target = base_memory(store_node.arg(0));
    bool in_output = target.is(Op::Param) && target.dtype() == reduce.dtype() && !is_read(target) &&
                     ranges.repeated.empty() && runs_over_launch(closed) &&
                     (!groups_ || kernel_.arg_count() == 1);
    if (in_output)
      return {target, store_node.arg(1), store_node.arg_count() > 3 ? store_node.arg(3) : Node(), true};
    std::int64_t size = 1;
    for (Node o : ranges.inner) size *= std::max<std::int64_t>(o.arg(0).hi(), 1);
    return {define(reduce.dtype(), ids_.define++, size, Space::Register), row_major(ranges.inner), Node(),
            false};
  }

  // The first step of the ranges above sets the memory, so nothing need be written before: except where there
  // may be no step. Then neither is known.
  struct Edges {
    Node first, last;  // conditions
  };
  static Edges edges_of(const Ranges& ranges) {
    Edges edges;
    if (ranges.selected) return edges;
    for (Node r : ranges.above)
      if (r.arg(0).lo() < 1) return edges;
    for (Node r : ranges.above) {
      Node one_less = r.arg(0) + index_const(-1);
      edges.first = both(edges.first, equal(r, index_const(0)));
      edges.last = both(edges.last, equal(r, one_less));
    }
    return edges;
  }
  Node cleared(const Sums& sums, Node reduce, const Ranges& ranges) {
    Nodes none, init_ranges;
    NodeMap<Node> init_map = clone(ranges.inner, init_ranges, sums.index);
    Node fresh = outer_loops(sums.memory, ranges.outer, Node(), none);
    return end(at(store(fresh, sums.index, unit_const(reduce), sums.gate), init_map), init_ranges);
  }

  // One step of the ranges above for all sums.
  struct Body {
    Nodes ranges;
    NodeMap<Node> map;  // to them
    Node memory, index, gate, sum;
  };
  Body body_of(Node reduce, const Ranges& ranges, const Sums& sums, const Edges& edges, Node init) {
    Body body;
    Nodes nest;
    for (Node o : ranges.inner)
      if (!ranges.selected || o != ranges.row) nest.push_back(o);
    nest.append(ranges.above.begin(), ranges.above.end());
    std::sort(nest.begin(), nest.end(), by_id);
    body.map = clone(nest, body.ranges);
    Node current = outer_loops(sums.memory, ranges.outer, init, ranges.above);
    if (ranges.selected) body.map.try_emplace(ranges.row, at(ranges.selected->row, body.map));
    body.index = at(sums.index, body.map);
    body.gate = sums.gate ? at(sums.gate, body.map) : Node();
    body.memory = at(current, body.map);
    if (sums.in_output && !ranges.selected &&
        memory_size(sums.memory) * sums.memory.dtype().bytes() * 2 > cache_)
      if (const Nodes fetches = prefetches(sums.memory, body.index); !fetches.empty())

        body.memory = after(body.memory, fetches);
    // Panels and inner loops of the element, and of what follows the reduce, are this nest's own: another
    // store may use the same values in its nest.
    Node element = reduce.arg(0);
    if (ranges.selected) element = selected_value(ranges, body);
    const Op op = reduce_op(reduce);
    Node part = reduce_ranges(op, copy_for_loop(element, body.map, ids_), ranges.rest);
    Node before = load(body.memory, body.index, body.gate);
    if (edges.first) {
      Node first = at(edges.first, body.map);
      before = load(body.memory, body.index, both(body.gate, logical_not(first)));
      if (op != Op::Add) before = where(first, unit_const(reduce), before);
    }
    body.sum = apply(op, before, part);
    return body;
  }
  // What a step adds to the row it selects, and the gate of that row.
  static Node selected_value(const Ranges& ranges, Body& body) {
    Node row = *body.map.find(ranges.row), element = ranges.selected->value;
    Node inside = logical_and(logical_not(less(row, index_const(0))), less(row, ranges.row.arg(0)));
    body.gate = both(body.gate, inside);
    if (!ranges.selected->gate) return element;
    body.gate = both(body.gate, at(ranges.selected->gate, body.map));
    return under_gate(element, ranges.selected->gate, [](Node) { return true; });
  }

  // Prefetches of the cache lines that a step adds its sums to, before it sums: their strides are too large
  // for the hardware prefetcher, and the sums would wait for them.
  static Nodes prefetches(Node memory, Node index) {
    constexpr std::int64_t kMost = 64;  // lines; more than a tile of sums in registers has
    const std::int64_t line = std::max<std::int64_t>(kLineBytes / memory.dtype().bytes(), 1);
    std::vector<Node> places{index};
    for (Node r : ranges_of(index)) {
      if (!in_registers(r)) continue;
      std::int64_t stride = 0;
      const std::int64_t extent = r.arg(0).const_int(),
                         step = is_affine(index, r, stride) && stride == 1 ? line : 1;
      std::vector<Node> more;
      for (Node place : places)
        for (std::int64_t i = 0; i < extent; i += step) {
          NodeMap<Node> map;
          map.try_emplace(r, index_const(i));
          more.push_back(substitute_free(place, map));
        }
      places = std::move(more);
      if (static_cast<std::int64_t>(places.size()) > kMost) return {};
    }
    Nodes out;
    for (Node place : places) out.push_back(prefetch(memory, place));
    return out;
  }
  // The running value is memory over what else the output runs over, a register where that is nothing:
  //
  //   outer: { run = unit;  i: { run = run op x(i);  out[i] = f(run) } }
  //
  // and one for each group where there are several. What the running value is the same for is stored in loops
  // inside the step.
  Node place_running(Node store_node, Node reduce, const RunningStep& run, Node range, const Nodes& inner,
                     const Nodes& outer, const Nodes& repeated) {
    Nodes beside, init_ranges, body_ranges;
    for (Node o : inner)
      if (o != range) beside.push_back(o);
    std::int64_t size = run.groups ? run.groups.const_int() : 1;
    for (Node o : beside) size *= std::max<std::int64_t>(o.arg(0).hi(), 1);
    Node memory = define(reduce.dtype(), ids_.define++, size, Space::Register);

    NodeMap<Node> init_map = clone(beside, init_ranges, row_major(beside));
    Node first = at(row_major(beside), init_map);
    if (run.groups) {
      Node group = lathe::range(run.groups, ids_.range++, RangeKind::Loop);
      init_ranges.push_back(group);
      first = group_index(group, beside, first);
    }
    Node fresh = outer_loops(memory, outer, Node(), {});
    Node init = end(store(fresh, first, unit_const(reduce)), init_ranges);

    NodeMap<Node> body_map = clone(inner, body_ranges);
    body_map.try_emplace(run.step, *body_map.find(range));
    Nodes within{range};
    Node current = at(outer_loops(memory, outer, init, within), body_map);
    Node here = at(row_major(beside), body_map), gate = run.gate ? at(run.gate, body_map) : Node();
    Node value = run.gate ? under_gate(run.value, run.gate, [](Node) { return true; }) : run.value;
    Node inside;  // whether the group is one
    if (run.group) {
      Node group = at(run.group, body_map);
      here = group_index(group, beside, here);
      inside = logical_and(logical_not(less(group, index_const(0))), less(group, run.groups));
    }
    Node before = load(current, here, inside);
    Node now = apply(reduce_op(reduce), before, copy_for_loop(value, body_map, ids_));
    if (gate) now = where(gate, now, before);
    if (inside) now = where(inside, now, unit_const(reduce));
    NodeMap<Node> result;
    result.try_emplace(reduce, now);
    more_.push_back(end(end(store(current, here, now, inside), body_ranges), outer));
    Nodes store_ranges(body_ranges);
    for (const auto& [old, own] : clone(repeated, store_ranges)) body_map.try_emplace(old, own);
    Node written = copy_for_loop(substitute(store_node, result), body_map, ids_);
    return end(end(written, store_ranges), outer);
  }

  static Node unit_const(Node reduce) {
    return element_const(reduce.dtype(), unit_of(reduce_op(reduce), reduce.dtype()));
  }
  // Whether a value is computed from the reduce, loads and constants alone: no other loop, no panel.
  static bool is_plain(Node value, Node reduce) {
    std::vector<Node> stack{value};
    NodeMap<char> seen;
    while (!stack.empty()) {
      Node n = stack.back();
      stack.pop_back();
      if (n == reduce || !seen.try_emplace(n).second) continue;
      if (n.is(Op::Reduce) || n.is(Op::Fold) || n.is(Op::After) || n.is(Op::Define)) return false;
      for (Node a : n.args()) stack.push_back(a);
    }
    return true;
  }
  // What follows the reduce, over `sum`: its loads touch memory in the last step only, and its checks look at
  // nothing before that, for what a sum is on the way may be no index.
  static Node finish(Node value, Node reduce, Node sum, Node last) {
    NodeMap<Node> map;
    map.try_emplace(reduce, sum);
    NodeMap<char> below;
    for (Node n : toposort(sum)) below.try_emplace(n, 1);
    return under_gate(substitute(value, map), last, [&](Node n) { return !below.contains(n); });
  }
  bool is_read(Node memory) const {
    for (Node n : order_)
      if (n.is(Op::Load) && base_memory(n.arg(0)) == memory) return true;
    return false;
  }
  // Whether the effect runs over all that is spread over groups and threads; else several of them would sum
  // into one output.
  bool runs_over_launch(std::span<const Node> closed) const {
    for (Node n : order_)
      if (n.is(Op::Range) && (range_kind(n) == RangeKind::Global || is_parallel(n)) && !contains(closed, n))
        return false;
    return true;
  }
  static Node row_major(std::span<const Node> ranges) {
    Node index = index_const(0);
    for (Node r : ranges) index = index * index_const(std::max<std::int64_t>(r.arg(0).hi(), 1)) + r;
    return index;
  }
  // The same ranges with ids of their own, in the same order. Inside a reduce nothing is spread over groups.
  // With `along`, a range in registers stays there only where that index runs along it, so that it makes
  // vectors and not many copies.
  NodeMap<Node> clone(std::span<const Node> ranges, Nodes& made, Node along = Node()) {
    NodeMap<Node> map;
    for (Node r : ranges) {
      RangeKind kind = range_kind(r) == RangeKind::Global ? RangeKind::Loop : range_kind(r);
      std::int64_t stride = 0;
      if (along && !(is_affine(along, r, stride) && stride == 1)) kind = RangeKind::Loop;
      made.push_back(range(r.arg(0), ids_.range++, kind));
      map.try_emplace(r, made.back());
    }
    return map;
  }
  static Node at(Node effect, const NodeMap<Node>& map) { return substitute_free(effect, map); }
  // Where a group's running value lies: as many of them beside each other as the other ranges have steps.
  static Node group_index(Node group, std::span<const Node> beside, Node within) {
    std::int64_t width = 1;
    for (Node r : beside) width *= std::max<std::int64_t>(r.arg(0).hi(), 1);
    return group * index_const(width) + within;
  }
  // The memory inside the outer loops, after an effect, within further ranges.
  static Node outer_loops(Node memory, std::span<const Node> outer, Node effect, std::span<const Node> more) {
    Nodes order;
    if (effect) order.push_back(effect);
    order.append(more.begin(), more.end());
    for (Node o : outer)
      if (!in_registers(o)) order.push_back(o);
    return order.empty() ? memory : after(memory, order);
  }

  Node kernel_;
  const std::vector<Node>& order_;
  FreshIds ids_;
  std::int64_t cache_;
  bool groups_;  // what another store spreads over them, each group does here
  const RuleChanges& rules_;
  Nodes more_;  // effects beside those that were placed
};

// Of several stores one writes a param that is read: then they stay in one nest, where all is read before
// anything is written.
bool reads_what_another_writes(const std::vector<Node>& order) {
  NodeMap<char> written;
  for (Node n : order)
    if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param)) written[base_memory(n.arg(0))] = 1;
  if (written.size() < 2) return false;
  return std::any_of(order.begin(), order.end(),
                     [&](Node n) { return n.is(Op::Load) && written.contains(base_memory(n.arg(0))); });
}

}  // namespace

Node place_accumulators(Node kernel, const Compile& compile) {
  const Target& target = compile.target;
  std::vector<Node> order = toposort(kernel);
  std::vector<Node> outside;
  for (Node n : order) {
    if (n.is(Op::Reduce) && is_outside(n)) outside.push_back(n);
    // One thread of a group stores what all of them would have to read back.
    if (n.is(Op::Range) && range_kind(n) == RangeKind::Group) return kernel;
  }
  if (outside.empty() || reads_what_another_writes(order)) return kernel;
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  AccumulatorPlacer placer(kernel, order, !target.groups && target.l2 > 0 ? target.l2 : kNever, compile);
  Nodes effects(kernel.args().begin(), kernel.args().end());
  for (Node& effect : effects) {
    if (!effect.is(Op::End) || !effect.arg(0).is(Op::Store)) continue;
    // Loop order is a matter of speed: where several reduces of one store disagree with it, they run
    // innermost.
    Node only;
    int found = 0;
    for (Node n : toposort(effect.arg(0).arg(2)))
      if (contains(outside, n)) only = n, ++found;
    bool direct = found == 1;
    for (Node r : only ? ranges_of(only) : std::span<const Node>())
      direct &= contains(closed_ranges(effect), r);
    if (direct) effect = placer.place(effect, only);
  }
  effects.append(placer.more_effects().begin(), placer.more_effects().end());
  return sink(effects);
}

}  // namespace lathe
