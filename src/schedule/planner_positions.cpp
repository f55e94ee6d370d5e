// The planner's part for ops that read their operand at positions which are themselves values, or at many
// positions of which an index chooses some: Take, RaggedReduce, Scatter, Scan.
#include <algorithm>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/shape.h"
#include "schedule/planner.h"
#include "schedule/planner_parts.h"

namespace lathe {
namespace {

std::size_t scanned_axis(Node n) {
  return n.is(Op::Scan) ? static_cast<std::size_t>(n.ints()[1]) : n.arg(1).rank() - 1;
}

// The last axes of a position, beginning with `first`, as those of another value.
Node index_part(const Position& at, std::size_t first, std::size_t count) {
  return count == 0 ? Node() : dims(at.index.args().subspan(first, count));
}

struct TakePositions {
  Position index;               // in the index
  SmallVector<Node, 8> around;  // in x, without the axis that is indexed
  std::size_t axis;             // that one
};
TakePositions take_positions(Node node, const Position& at) {
  TakePositions p;
  std::size_t of_index = node.arg(1).rank();
  p.axis = static_cast<std::size_t>(node.int_attr());
  p.index = {index_part(at, 0, of_index), at.valid};
  for (std::size_t i = 0; i < p.axis; ++i) p.around.push_back(at.index.arg(i));
  for (std::size_t i = of_index; i < node.rank(); ++i) p.around.push_back(at.index.arg(i));
  return p;
}

Node clamped(Node i, Node low, Node high) { return min(max(i, low), high); }

}  // namespace

// A position that is itself a value: until both are written down, a load from memory that does not exist
// stands for it. Equal values at equal positions have equal stand-ins.
Node Planner::stand_in(Node node, const Position& at) {
  auto [memory, fresh] = stand_ins_.try_emplace(node);
  if (fresh) *memory = new_buffer(node.dtype(), numel_max(node), "");
  Node index = flat_index(node.shape(), at.index ? at.index.args() : std::span<const Node>(), rewriter_);
  return load(*stand_ins_.find(node), index, at.valid);
}

void Planner::expand_take(Node node, Request& r) {
  Node x = node.arg(0), index = node.arg(1);
  TakePositions p = take_positions(node, r.at);
  Node i = cast(stand_in(index, p.index), dtypes::Index), n = x.shape()[p.axis];
  Node inside = logical_and(logical_not(less(i, index_const(0))), less(i, n));
  p.around.insert(p.around.begin() + static_cast<std::ptrdiff_t>(p.axis),
                  rewriter_.rewrite(clamped(i, index_const(0), n + index_const(-1))));
  Position at{dims(p.around), both(r.at.valid, rewriter_.rewrite(inside), rewriter_)};
  r.children.push_back(request(x, r.step, at, r.loops, false, r.in_reduce));
  r.children.push_back(request(index, r.step, p.index, r.loops, false, r.in_reduce));
}

// out[v, ...] reads x at order[begin[v] + i], i < end[v] - begin[v], with everything kept inside its list.
void Planner::expand_ragged(Node node, Request& r) {
  Node x = node.arg(0), order = node.arg(2), zero = index_const(0);
  Position row{index_part(r.at, 0, 1), r.at.valid};
  Node all = order.shape()[0];
  Node begin = clamped(cast(stand_in(node.arg(3), row), dtypes::Index), zero, all);
  Node end = clamped(cast(stand_in(node.arg(4), row), dtypes::Index), zero, all);
  Node steps = new_range(clamped(end - begin, zero, all), RangeKind::Reduce);
  r.ranges.push_back(steps);
  Position place{Node(), r.at.valid};
  Node at = rewriter_.rewrite(min(begin + steps, all + index_const(-1)));
  place.index = dims(std::span<const Node>(&at, 1));
  SmallVector<Node, 8> in_x;
  Node t = cast(stand_in(order, place), dtypes::Index);
  in_x.push_back(rewriter_.rewrite(clamped(t, zero, x.shape()[0] + index_const(-1))));
  for (std::size_t i = 1; i < x.rank(); ++i) in_x.push_back(r.at.index.arg(i));
  SmallVector<Node, 8> loops;
  if (r.loops) loops.append(r.loops.args().begin(), r.loops.args().end());
  loops.push_back(steps);
  Node inside = dims(loops);
  r.children.push_back(request(x, r.step, {dims(in_x), r.at.valid}, inside, false, true));
  r.children.push_back(request(order, r.step, place, inside, false, true));
  r.children.push_back(request(node.arg(3), r.step, row, r.loops, false, r.in_reduce));
  r.children.push_back(request(node.arg(4), r.step, row, r.loops, false, r.in_reduce));
}

// A Scatter as a reduce over all positions t whose index equals the row, a Scan as a reduce over all
// positions up to i. The comparison defines the meaning; a target with fast threads only runs the steps that
// count (codegen/kernel/scan_reduces.h).
void Planner::expand_in_order(Node node, Request& r) {
  Node x = node.arg(0);
  const std::size_t axis = scanned_axis(node);
  Node steps =
      x.shape()[axis].is_const_int(1) ? index_const(0) : new_range(x.shape()[axis], RangeKind::Reduce);
  SmallVector<Node, 8> at(r.at.index.args().begin(), r.at.index.args().end()), loops;
  at[axis] = steps;
  if (r.loops) loops.append(r.loops.args().begin(), r.loops.args().end());
  if (steps.is(Op::Range)) {
    r.ranges.push_back(steps);
    loops.push_back(steps);
  }
  Position in_x{dims(at), r.at.valid};
  r.children.push_back(request(x, r.step, in_x, dims(loops), false, true));
  if (node.arg_count() == 1) return;
  Position in_index{node.is(Op::Scan) ? in_x.index : index_part(in_x, 0, axis + 1), r.at.valid};
  r.children.push_back(request(node.arg(1), r.step, in_index, dims(loops), false, true));
  if (node.is(Op::Scan))
    r.children.push_back(request(node.arg(1), r.step, r.at, r.loops, false, r.in_reduce));
}

Node Planner::take_value(Node node, const Request& r, std::span<const Node> args) {
  const Position& inner = (*requests_.find(node.arg(0)))[r.children[0]].at;
  bool gates = inner.valid && inner.valid != r.at.valid;
  NodeMap<Node> known;
  known[stand_in(node.arg(1), take_positions(node, r.at).index)] = args[1];
  return substitute(gates ? where(inner.valid, args[0], zero_of(args[0].dtype())) : args[0], known);
}

Node Planner::ragged_value(Node node, const Request& r, std::span<const Node> args) {
  Position row{index_part(r.at, 0, 1), r.at.valid};
  Position place = (*requests_.find(node.arg(2)))[r.children[1]].at;
  NodeMap<Node> known;
  known[stand_in(node.arg(3), row)] = args[2];
  known[stand_in(node.arg(4), row)] = args[3];
  Node element = reduce_ranges(reduce_op(node), args[0], r.ranges), order = substitute(args[1], known);
  known[stand_in(node.arg(2), place)] = order;
  return substitute(element, known);
}

Node Planner::in_order_value(Node node, const Request& r, std::span<const Node> args) {
  const std::size_t axis = scanned_axis(node);
  Node mine = r.at.index.arg(axis), step = r.ranges.empty() ? index_const(0) : r.ranges[0];
  Node unit = element_const(node.dtype(), unit_of(reduce_op(node), node.dtype()));
  if (node.arg(0).shape()[axis].is_const_int(0)) return unit;
  Node counts;
  if (node.is(Op::Scatter)) {
    counts = equal(cast(args[1], dtypes::Index), mine);
  } else {
    counts = logical_not(less(mine, step));
    if (args.size() > 1) {
      Node i = cast(args[1], dtypes::Index);
      Node inside = logical_and(logical_not(less(i, index_const(0))), less(i, node.arg(2)));
      counts = logical_and(logical_and(counts, equal(i, cast(args[2], dtypes::Index))), inside);
    }
  }
  return reduce_ranges(reduce_op(node), where(counts, args[0], unit), r.ranges);
}

}  // namespace lathe
