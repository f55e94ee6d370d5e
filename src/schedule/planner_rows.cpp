// What the planner computes a row at a time: reduces above the loops that use them, panels that several loops
// of a row read, and sums weighted by a softmax in one pass.
#include <algorithm>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/shape.h"
#include "rules/linear.h"
#include "schedule/planner.h"
#include "schedule/planner_parts.h"

namespace lathe {
namespace {

// Whether the innermost axis that has more than one step is among the reduced ones.
bool reduces_last_axis(Node reduce) {
  std::span<const Node> shape = reduce.arg(0).shape();
  std::size_t last = shape.size();
  while (last > 0 && shape[last - 1].is_const_int(1)) --last;
  std::span<const std::int64_t> axes = reduce_axis_list(reduce);
  return last == 0 || std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(last) - 1) != axes.end();
}

// Whether an index takes every value from 0 to `elements` - 1 exactly once while its ranges run.
bool covers(Node index, std::int64_t elements) {
  Linear sum = linear(index);
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const Term& a, const Term& b) { return a.coefficient < b.coefficient; });
  std::int64_t next = 1;
  for (const Term& t : sum.terms) {
    if (!t.node.is(Op::Range) || !t.node.arg(0).is_const() || t.coefficient != next) return false;
    next *= t.node.arg(0).int_attr();
  }
  return sum.constant == 0 && next == elements;
}

// The reduce over a row that a value is made of: the value itself, or what it computes from one.
Node row_reduce(Node node) {
  constexpr int kNear = 16;
  SmallVector<Node, 16> stack;
  stack.push_back(node);
  for (int seen = 0; !stack.empty() && seen < kNear; ++seen) {
    Node top = stack.back();
    stack.pop_back();
    if (is_tensor_reduce(top)) return top;
    if (is_elementwise(top.op()))
      for (Node a : top.args()) stack.push_back(a);
    else if (is_movement(top.op()))
      stack.push_back(top.arg(0));
  }
  return Node();
}

}  // namespace

// Loops in the order in which they will be: output ranges as the kernel's nest has them.
Node Planner::nested(Node loops, int step) const {
  const Nest& nest = work_[static_cast<std::size_t>(step)].nest;
  if (!loops || !nest.has_rows()) return loops;
  std::vector<Node> outputs = nest.order();
  SmallVector<Node, 8> order;
  for (Node r : outputs)
    if (contains(loops.args(), r)) order.push_back(r);
  for (Node r : loops.args())
    if (!contains(outputs, r)) order.push_back(r);
  return dims(order);
}

// Ranges for the reduced axes of a row: reduces over equal rows of one kernel share them, and so a loop,
// where neither can need the other.
std::span<const Node> Planner::row_ranges(Node node, int step, Node outside) {
  SmallVector<Node, 8> sizes;
  for (std::int64_t axis : reduce_axis_list(node))
    sizes.push_back(node.arg(0).shape()[static_cast<std::size_t>(axis)]);
  Node extents = dims(sizes);
  const int depth = *reduce_depth_.find(node);
  std::vector<Work::RowRanges>& known = work(step).row_ranges;
  for (const Work::RowRanges& k : known)
    if (k.outside == outside && k.extents == extents && k.depth == depth) return k.ranges;
  Work::RowRanges made{outside, extents, depth, {}};
  for (Node d : sizes)
    made.ranges.push_back(d.is_const_int(1) ? index_const(0) : new_range(d, RangeKind::Reduce));
  known.push_back(std::move(made));
  return known.back().ranges;
}

// A reduce (or a value computed from one) whose result is used in loops that it does not depend on is
// computed before these loops, in the same kernel. The kernel nearest to the inputs does that; others read
// its stored result.
bool Planner::plan_row(Node node) {
  if (rows_ == Rows::Apart || node.rank() == 0) return false;
  Node reduce = row_reduce(node);
  if (!reduce || is_product_sum(reduce)) return false;
  std::vector<Request>& asked = requests_[node];
  int step = -1;
  for (const Request& r : asked) step = std::max(step, r.step);
  Work& w = work(step);
  // Every thread of a matrix unit's fragment would compute the whole of it.
  if (w.product || (w.folds && rows_ == Rows::Group)) return false;
  const bool alone =
      std::all_of(asked.begin(), asked.end(), [&](const Request& r) { return r.step == step; });
  if (!alone && !has_device(node)) return false;  // the others may be on other devices
  Nest nest = w.nest;
  const std::vector<Node> outputs = nest.order();
  for (Node o : outputs)
    if (o.arg(0).hi() == 0) return false;
  RowUsage usage;
  usage.elements = static_cast<double>(numel_max(node));
  usage.reduce_extent =
      static_cast<double>(numel_max(reduce.arg(0))) / std::max(static_cast<double>(numel_max(reduce)), 1.0);
  usage.row_bytes = usage.reduce_extent * reduce.arg(0).dtype().bytes();
  usage.side_by_side = reduces_last_axis(reduce);
  bool inside = false;  // whether it is needed in loops that it does not depend on
  int uses = 0;
  for (const Request& r : asked) {
    if (r.step != step) continue;
    if (r.in_sum) return false;
    const SmallVector<Node, 8> outside = ranges_at(r.at);
    for (Node o : outside)
      if (!contains(outputs, o)) return false;  // computed again in every step of another reduce
    if (!nest.put_outside(outside)) return false;
    usage.evaluations += iterations(dims(outside));
    usage.turns = std::max(usage.turns, iterations(r.loops));
    inside |= r.in_reduce || outside.size() < outputs.size();
    ++uses;
    // What others read must be stored whole.
    Node at = flat_index(node.shape(), r.at.index ? r.at.index.args() : std::span<const Node>(), rewriter_);
    if (!alone && (r.at.valid || !covers(at, numel_max(node)))) return false;
  }
  usage.parallel_steps = nest.parallel_steps();
  usage.invariant = invariant_;
  // Loops of its own for each use would be sums of their own.
  const bool once = !alone || compared_.contains(node);
  if (!inside || (once && uses > 1) || !worth_a_row(usage)) return false;
  w.nest = nest;
  w.rows.push_back(node);
  for (Request& r : asked) {
    if (r.step != step) continue;
    r.row = true;
    r.loops = nested(dims(ranges_at(r.at)), step);
  }
  if (alone) return true;
  plan_.stored[node] = buffer_for(node);
  plan_.steps[static_cast<std::size_t>(step)].kept.push_back(node);
  kept_in_[node] = step;
  return true;
}

// A value that several loops of a row need and that is expensive to compute is computed once, into a panel.
// All positions must be equal, except for axes that each loop covers completely. The threads of a group take
// the same elements in every loop, so a value computed in one loop is in registers for the next.
bool Planner::plan_panel(Node node) {
  std::vector<Request>& asked = requests_[node];
  if (asked.size() < 2 || node.rank() == 0 || !is_elementwise(node.op())) return false;
  const Request first = asked[0];
  if (work(first.step).rows.empty()) return false;
  SmallVector<Node, 8> at(first.at.index.args().begin(), first.at.index.args().end()), made;
  double evaluations = 0, row = 1;
  for (const Request& r : asked) {
    if (r.step != first.step || r.at.valid) return false;
    evaluations += turns(r.at.index, nested(r.loops, r.step));
  }
  for (std::size_t a = 0; a < node.rank(); ++a) {
    bool same = true, whole = true;
    for (const Request& r : asked) {
      Node i = r.at.index.arg(a);
      same &= i == at[a];
      whole &= i.is(Op::Range) && i.arg(0) == rewriter_.rewrite(node.shape()[a]);
    }
    if (same) continue;
    if (!whole) return false;
    row *= typical_extent(at[a]);
    made.push_back(at[a]);
  }
  SmallVector<Node, 8> outside;
  for (Node i : at)
    if (!contains(made, i))
      for (Node r : ranges_of(i))
        if (!contains(outside, r)) outside.push_back(r);
  const Nest& nest = work(first.step).nest;
  if (!nest.is_outside(outside)) return false;
  const double elements = iterations(dims(outside)) * row;
  if (!worth_staging(costs_[node], evaluations, elements, row * node.dtype().bytes())) return false;
  if (rows_ == Rows::Group) {
    if (compared_.contains(node)) return false;
    for (std::uint32_t i = 0; i < requests_[node].size(); ++i) expand(node, i);
    return true;
  }
  SmallVector<Node, 8> loops(outside.begin(), outside.end());
  loops = SmallVector<Node, 8>(dims(loops) ? nested(dims(loops), first.step).args() : loops);
  for (Request& r : asked) r.staged = true;
  for (std::size_t a = 0; a < node.rank(); ++a)
    if (contains(made, at[a])) {
      at[a] = new_range(node.shape()[a], RangeKind::Loop);
      loops.push_back(at[a]);
    }
  request(node, first.step, {dims(at), Node()}, dims(loops), false, first.in_reduce);
  requests_[node].back().fills = true;
  expand(node, static_cast<std::uint32_t>(requests_[node].size() - 1));
  return true;
}

// Whether a sum weighted by a softmax over its axis can be computed in one pass, and the order of its loops:
// rows outside, the further axes of the sum inside.
std::optional<Planner::FoldPlace> Planner::fold_place(Node node, const Request& r) {
  const auto here = std::count_if(requests_[node].begin(), requests_[node].end(),
                                  [&](const Request& other) { return other.step == r.step; });
  if (rows_ == Rows::Apart || (rows_ == Rows::Group && !folds_on_groups_) || here != 1) return std::nullopt;
  const Work& w = work(r.step);
  if (r.in_reduce || r.at.valid || w.folds || !w.rows.empty() || (w.product && w.product != node))
    return std::nullopt;
  if (rewriter_.changes().disables(kRunningMaximumRule)) return std::nullopt;
  std::optional<SoftmaxSum> sum = fold_of(node);
  if (!sum) return std::nullopt;
  for (Node n : {sum->panel, node.arg(0)})
    if (forced_.contains(n)) return std::nullopt;
  FoldPlace place{*sum, static_cast<std::size_t>(reduce_axis_list(node)[0]), Node(), {}, 1, w.nest};
  place.extent = node.arg(0).shape()[place.axis];
  if (place.extent.hi() < 2) return std::nullopt;
  Node j = new_range(place.extent, RangeKind::Reduce);
  const Position probe = score_at(place, term_at(place, r, j, Node()));
  if (probe.valid) return std::nullopt;
  int summed = 0;
  for (std::size_t a = 0; a < probe.index.arg_count(); ++a) {
    Node i = probe.index.arg(a);
    if (i == j) {
      ++summed;
      continue;
    }
    if (depends_on(i, j)) return std::nullopt;
    for (Node o : ranges_of(i))
      if (!contains(place.outside, o)) place.outside.push_back(o);
  }
  const bool any_axis = sum->form == FoldForm::Sum;  // of its factor
  if (summed != 1 || (!any_axis && probe.index.arg(static_cast<std::size_t>(sum->softmax.axis)) != j))
    return std::nullopt;
  const std::vector<Node> outputs = place.nest.order();
  for (Node o : outputs)
    if (o.arg(0).hi() == 0) return std::nullopt;
  for (Node o : place.outside)
    if (!contains(outputs, o)) return std::nullopt;
  if (!place.nest.put_outside(place.outside)) return std::nullopt;
  RowUsage usage;
  if (rows_ == Rows::Group && !fits_unit(place, outputs)) return std::nullopt;
  usage.evaluations = iterations(dims(place.outside));
  usage.elements = static_cast<double>(numel_max(sum->panel)) / static_cast<double>(place.extent.hi());
  usage.reduce_extent = static_cast<double>(place.extent.hi());
  usage.parallel_steps = place.nest.parallel_steps();
  usage.invariant = invariant_;
  return rows_ == Rows::Group || worth_a_row(usage) ? std::optional(place) : std::nullopt;
}

// Whether a matrix unit may take the products of a fold: small numbers, and rows enough for one.
bool Planner::fits_unit(FoldPlace& place, std::span<const Node> outputs) {
  constexpr std::int64_t kFewestRows = 64, kMostOutputs = 256;
  const SmallVector<DType, 2>& casts = place.sum.casts;
  const FoldForm form = place.sum.form;
  const bool of_row = form == FoldForm::Largest || form == FoldForm::Total;
  if ((!of_row && (casts.empty() || casts[0].bits() != 16)) || !place.extent.is_const()) return false;
  std::int64_t rows = 0;
  place.further = place.sum.outputs;
  for (Node o : outputs) {
    if (!o.arg(0).is_const()) return false;
    if (contains(place.outside, o))
      rows = std::max(rows, o.arg(0).const_int());
    else
      place.further *= o.arg(0).const_int();
  }
  return rows >= kFewestRows && place.further <= kMostOutputs && place.extent.const_int() > kFewestRows;
}

// Where term number j of the sum is in the product, and where that is in the scores.
Position Planner::term_at(const FoldPlace& place, const Request& r, Node j, Node valid) {
  SmallVector<Node, 8> at(r.at.index.args().begin(), r.at.index.args().end());
  at[place.axis] = j;
  return {dims(at), valid};
}
Position Planner::score_at(const FoldPlace& place, Position at) {
  for (Node m : place.sum.movements) at = map_position(m, at, rewriter_);
  return at;
}

// The softmax sum that a reduce is computed as, a tile at a time: one that rebuilds weights, or one whose
// weights nothing else needs.
std::optional<SoftmaxSum> Planner::fold_of(Node node) const {
  if (const SoftmaxSum* known = rebuilt_.folds.find(node)) return *known;
  return match_softmax_sum(node, &uses_);
}

// Values as large as rebuilt weights are computed by every kernel that needs them, sums of them if the kernel
// has nothing else. False for values to store: other sums, and the statistics of a row.
bool Planner::plan_rebuilt(Node node) {
  if (rebuilt_.empty()) return false;
  const std::vector<Request>& asked = requests_[node];
  const bool fits = rebuilt_.folds.contains(node) && !rebuilt_.kept.contains(node) && asked.size() == 1 &&
                    fold_place(node, asked[0]);
  if (!fits && !rebuilt_.never_stored.contains(node)) return false;
  for (std::uint32_t i = 0; i < requests_[node].size(); ++i) expand(node, i);
  return true;
}

// The softmax is never stored: a tile of scores at a time, with the largest so far.
bool Planner::plan_fold(Node node, std::uint32_t index) {
  const Request r = requests_[node][index];
  std::optional<FoldPlace> place = fold_place(node, r);
  if (!place) return false;
  Work& w = work(r.step);
  w.nest = place->nest;
  w.folds = true;

  Fold fold;
  fold.parts.form = place->sum.form;
  Node extent = place->extent;
  const std::int64_t size =
      rows_ == Rows::Group ? unit_fold_tile(place->sum.form, place->further) : fold_tile(extent);
  Node length = index_const(size);
  const bool whole = extent.is_const() && extent.int_attr() % size == 0;
  fold.parts.tile = new_range(floor_div(extent + index_const(size - 1), length), RangeKind::Reduce);
  for (Node* loop : {&fold.parts.fill, &fold.parts.weigh}) *loop = new_range(length, RangeKind::Loop);
  for (Node* over : {&fold.parts.largest, &fold.parts.total, &fold.parts.term})
    *over = new_range(length, RangeKind::Reduce);
  Node outer = nested(dims(place->outside), r.step);
  if (outer) fold.parts.outside.append(outer.args().begin(), outer.args().end());
  fold.sum = place->sum;
  fold.parts.scale = fold.sum.softmax.scale;
  fold.parts.casts = fold.sum.casts;
  fold.parts.scales_late = rows_ == Rows::Group;
  if (rows_ == Rows::Group) fold.parts.outputs = place->further;
  auto term = [&](Node within) { return rewriter_.rewrite(fold.parts.tile * length + within); };
  auto limit = [&](Node at) { return whole ? Node() : rewriter_.rewrite(less(at, extent)); };
  auto loops = [&](Node around, Node within) {
    SmallVector<Node, 8> list;
    if (around) list.append(around.args().begin(), around.args().end());
    list.push_back(fold.parts.tile);
    list.push_back(within);
    return dims(list);
  };
  Node at = term(fold.parts.fill), of_value = term(fold.parts.term);
  fold.inside = limit(at);
  SmallVector<std::uint32_t, 3> children;
  children.push_back(request(fold.sum.panel, r.step, score_at(*place, term_at(*place, r, at, fold.inside)),
                             loops(outer, fold.parts.fill), false, false));
  if (fold.sum.form == FoldForm::Average || fold.sum.form == FoldForm::Sum)
    children.push_back(request(node.arg(0).arg(1 - fold.sum.side), r.step,
                               term_at(*place, r, of_value, limit(of_value)),
                               loops(nested(r.loops, r.step), fold.parts.term), false, true));
  requests_[node][index].children = children;
  requests_[node][index].fold = static_cast<int>(folds_.size());
  folds_.push_back(std::move(fold));
  return true;
}

// ---- writing down

// A fold whose scores and values are done.
Node Planner::fold_value(Node node, const Request& r) {
  const Fold& fold = folds_[static_cast<std::size_t>(r.fold)];
  RunningMaximum parts = fold.parts;
  parts.scores = (*requests_.find(fold.sum.panel))[r.children[0]].value;
  if (r.children.size() > 1)
    parts.values = (*requests_.find(node.arg(0).arg(1 - fold.sum.side)))[r.children[1]].value;
  // Beyond the end of the axis a score is no candidate and weighs nothing.
  DType dtype = parts.scores.dtype();
  Node nothing =
      fold.sum.form == FoldForm::Sum ? zero_of(dtype) : element_const(dtype, unit_of(Op::Max, dtype));
  plan_.steps[static_cast<std::size_t>(r.step)].fold = parts;
  if (fold.inside) parts.scores = where(fold.inside, parts.scores, nothing);
  const std::int64_t panel = next_panel_;
  next_panel_ += 2;
  return running_maximum(parts, panel);
}

// The panel of a row that the last request fills, for the others to read.
void Planner::fill_panel(Node node) {
  std::vector<Request>& asked = requests_[node];
  Request& fill = asked.back();
  fill.value = value_of(node, fill);
  SmallVector<Node, 8> sizes, ranges, outside;
  SmallVector<std::size_t, 8> axes;
  for (std::size_t a = 0; a < node.rank(); ++a)
    if (Node r = fill.at.index.arg(a); r != asked[0].at.index.arg(a)) {
      axes.push_back(a);
      sizes.push_back(node.shape()[a]);
      ranges.push_back(r);
    }
  for (Node r : fill.loops.args())
    if (!contains(ranges, r)) outside.push_back(r);
  std::int64_t size = 1;
  for (Node d : sizes) size *= d.hi();
  Node panel = define(node.dtype(), next_panel_++, size, Space::Register);
  Node inside = outside.empty() ? panel : after(panel, outside);
  Node filled = end(store(inside, flat_index(sizes, ranges, rewriter_), fill.value), ranges);
  Node ready = after(panel, {&filled, 1});
  for (Request& r : asked) {
    if (!r.staged) continue;
    SmallVector<Node, 8> at;
    for (std::size_t a : axes) at.push_back(r.at.index.arg(a));
    r.value = load(ready, flat_index(sizes, at, rewriter_));
  }
}

// A row's result that other steps read too.
void Planner::keep(Node node, const Request& r) {
  Node at = flat_index(node.shape(), r.at.index ? r.at.index.args() : std::span<const Node>(), rewriter_);
  Node effect = end(store(*plan_.stored.find(node), at, r.value), ranges_at(r.at));
  work(r.step).kept_stores.push_back(effect);
}

}  // namespace lathe
