#include "schedule/planner.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/device_of.h"
#include "ir/launch.h"
#include "ir/ranges.h"
#include "ir/shape.h"
#include "rules/linear.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

// A copy of a value that has no device yet only says where it is to be computed.
bool is_placement(Node n) { return n.is(Op::Copy) && device_of(n.arg(0)).empty(); }
bool is_identity(Node n) { return n.is(Op::Contiguous) || n.is(Op::Copy); }

bool is_tensor_reduce(Node n) { return n.is(Op::Reduce) && n.attr().kind == Attr::Kind::Data; }

std::span<const std::int64_t> reduce_axis_list(Node n) { return n.ints().subspan(1); }

double extent_of(Node range) { return static_cast<double>(std::max<std::int64_t>(range.arg(0).hi(), 1)); }

double iterations(Node loops) {
  double n = 1;
  if (loops)
    for (Node r : loops.args()) n *= extent_of(r);
  return n;
}

// How often a value at this index is computed: once for every turn of the innermost loop it depends on.
double turns(Node index, Node loops) {
  double all = 1, used = 1;
  if (!index || !loops) return 1;
  for (Node r : loops.args()) {
    all *= extent_of(r);
    if (depends_on(index, r)) used = all;
  }
  return used;
}

// The ranges of a root's position: one for every axis that needs one.
SmallVector<Node, 8> output_ranges(const Position& at) {
  SmallVector<Node, 8> out;
  if (at.index)
    for (Node i : at.index.args())
      if (i.is(Op::Range)) out.push_back(i);
  return out;
}

// The loops of a kernel that computes every position of `at`.
Node loops_of(const Position& at) { return dims(output_ranges(at)); }

bool contains(std::span<const Node> list, Node n) {
  return std::find(list.begin(), list.end(), n) != list.end();
}

// Every range a position depends on.
SmallVector<Node, 8> ranges_at(const Position& at) {
  SmallVector<Node, 8> out;
  for (Node part : {at.index, at.valid})
    if (part)
      for (Node r : ranges_of(part))
        if (!contains(out, r)) out.push_back(r);
  return out;
}

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

}  // namespace

bool is_memory(Node node) { return node.is(Op::Buffer) || node.is(Op::After); }

Node view_memory(Node view) {
  while (is_movement(view.op())) view = view.arg(0);
  if (!is_memory(view))
    throw InternalError("schedule",
                        fmt::format("a store into {}, which is not memory", info(view.op()).name));
  return view;
}

Planner::Planner(std::span<const Node> targets, const NodeMap<char>& forced, std::string default_device,
                 bool rows)
    : targets_(targets),
      forced_(forced),
      default_device_(std::move(default_device)),
      rows_(rows),
      rewriter_(simplify_rules()) {}

bool Planner::is_root(Node node) const {
  return node.is(Op::Store) || node.is(Op::Launch) || (node.is(Op::Copy) && !is_placement(node)) ||
         node.is(Op::Contiguous) || forced_.contains(node) || needed_in_memory_.contains(node);
}

std::uint32_t Planner::request(Node node, int step, const Position& at, Node loops, bool in_sum,
                               bool in_reduce) {
  std::vector<Request>& list = requests_[node];
  for (std::uint32_t i = 0; i < list.size(); ++i)
    if (list[i].step == step && list[i].at == at) {
      list[i].in_sum &= in_sum;
      list[i].in_reduce |= in_reduce;
      return i;
    }
  list.push_back({step, at, loops, in_sum, in_reduce, {}, {}, Node()});
  return static_cast<std::uint32_t>(list.size() - 1);
}

// One range an axis; axes of size 1 need none.
Position Planner::root_position(std::span<const Node> shape) {
  SmallVector<Node, 8> index;
  for (Node d : shape)
    index.push_back(d.is_const_int(1) ? index_const(0) : range(d, next_range_++, RangeKind::Global));
  return {dims(index), Node()};
}

int Planner::new_step(Node root, Node buffer) {
  PlannedStep step;
  step.root = root;
  step.buffer = buffer;
  plan_.steps.push_back(std::move(step));
  work_.emplace_back();
  if (is_product_sum(root)) work_.back().product = root;
  int id = static_cast<int>(plan_.steps.size() - 1);
  step_of_[root] = id;
  return id;
}

void Planner::start(int step, const Position& at) {
  work(step).at = at;
  work(step).nest = Nest(output_ranges(at));
}

// Loops in the order in which they will stand: output ranges as the kernel's nest has them.
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
    made.ranges.push_back(d.is_const_int(1) ? index_const(0) : range(d, next_range_++, RangeKind::Reduce));
  known.push_back(std::move(made));
  return known.back().ranges;
}

// A sum weighted by a softmax over the axis it runs along, in one pass: the softmax is never stored. Rows
// stay parallel; the further axes of the sum run inside.
bool Planner::plan_fold(Node node, std::uint32_t index) {
  if (!rows_ || requests_[node].size() != 1) return false;
  const Request r = requests_[node][index];
  Work& w = work(r.step);
  if (r.in_reduce || r.at.valid || w.folds || !w.rows.empty() || (w.product && w.product != node))
    return false;
  std::optional<SoftmaxSum> sum = match_softmax_sum(node, uses_);
  if (!sum) return false;
  for (Node n : {sum->scores, node.arg(0)})
    if (forced_.contains(n)) return false;
  const auto axis = static_cast<std::size_t>(reduce_axis_list(node)[0]);
  Node extent = node.arg(0).shape()[axis];
  if (extent.hi() < 2) return false;
  // Where the sum's term number j is, in the product and in the scores.
  auto product_at = [&](Node j, Node valid) {
    SmallVector<Node, 8> at(r.at.index.args().begin(), r.at.index.args().end());
    at[axis] = j;
    return Position{dims(at), valid};
  };
  auto scores_at = [&](Position at) {
    for (Node m : sum->movements) at = map_position(m, at, rewriter_);
    return at;
  };
  Node j = range(extent, next_range_++, RangeKind::Reduce);
  const Position probe = scores_at(product_at(j, Node()));
  if (probe.valid) return false;
  SmallVector<Node, 8> outside;
  for (std::size_t a = 0; a < probe.index.arg_count(); ++a) {
    Node i = probe.index.arg(a);
    const bool summed = static_cast<std::int64_t>(a) == sum->axis;
    if (summed ? i != j : depends_on(i, j)) return false;
    for (Node o : ranges_of(i))
      if (!summed && !contains(outside, o)) outside.push_back(o);
  }
  Nest nest = w.nest;
  const std::vector<Node> outputs = nest.order();
  for (Node o : outputs)
    if (o.arg(0).hi() == 0) return false;
  for (Node o : outside)
    if (!contains(outputs, o)) return false;
  if (!nest.put_outside(outside)) return false;
  RowUsage usage;
  usage.evaluations = iterations(dims(outside));
  usage.elements = static_cast<double>(numel_max(sum->scores)) / static_cast<double>(extent.hi());
  usage.reduce_extent = static_cast<double>(extent.hi());
  usage.parallel_steps = nest.parallel_steps();
  if (!worth_a_row(usage)) return false;
  w.nest = nest;
  w.folds = true;

  Fold fold;
  const std::int64_t size = fold_tile(extent);
  Node length = index_const(size);
  const bool whole = extent.is_const() && extent.int_attr() % size == 0;
  fold.parts.tile = range(rewriter_.rewrite(floor_div(extent + index_const(size - 1), length)), next_range_++,
                          RangeKind::Reduce);
  for (Node* loop : {&fold.parts.fill, &fold.parts.weigh})
    *loop = range(length, next_range_++, RangeKind::Loop);
  for (Node* over : {&fold.parts.largest, &fold.parts.total, &fold.parts.term})
    *over = range(length, next_range_++, RangeKind::Reduce);
  Node outer = nested(dims(outside), r.step);
  if (outer) fold.parts.outside.append(outer.args().begin(), outer.args().end());
  fold.parts.scale = sum->scale;
  fold.parts.casts = sum->casts;
  fold.sum = *sum;
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
  children.push_back(request(sum->scores, r.step, scores_at(product_at(at, fold.inside)),
                             loops(outer, fold.parts.fill), false, false));
  children.push_back(request(node.arg(0).arg(1 - sum->side), r.step, product_at(of_value, limit(of_value)),
                             loops(nested(r.loops, r.step), fold.parts.term), false, true));
  requests_[node][index].children = children;
  requests_[node][index].fold = static_cast<int>(folds_.size());
  folds_.push_back(std::move(fold));
  return true;
}

// Asks the operands of `node` for what request `index` needs of them.
void Planner::expand(Node node, std::uint32_t index) {
  if (is_tensor_reduce(node) && plan_fold(node, index)) return;
  // `requests_` may grow while operands are asked, so the request is copied and its children written back.
  Request r = requests_[node][index];
  auto ask = [&](Node arg, const Position& at, bool in_sum, bool in_reduce) {
    r.children.push_back(request(arg, r.step, at, r.loops, in_sum, in_reduce));
  };
  if (is_movement(node.op())) {
    ask(node.arg(0), map_position(node, r.at, rewriter_), r.in_sum, r.in_reduce);
  } else if (is_tensor_reduce(node)) {
    Node x = node.arg(0);
    SmallVector<Node, 8> at(r.at.index.args().begin(), r.at.index.args().end());
    std::span<const Node> shared = r.row ? row_ranges(node, r.step, r.loops) : std::span<const Node>();
    for (std::size_t i = 0; i < reduce_axis_list(node).size(); ++i) {
      auto a = static_cast<std::size_t>(reduce_axis_list(node)[i]);
      Node d = x.shape()[a];
      if (d.is_const_int(1)) continue;
      at[a] = r.row ? shared[i] : range(d, next_range_++, RangeKind::Reduce);
      r.ranges.push_back(at[a]);
    }
    SmallVector<Node, 8> loops;
    if (r.loops) loops.append(r.loops.args().begin(), r.loops.args().end());
    loops.append(r.ranges.begin(), r.ranges.end());
    Node outer = std::exchange(r.loops, dims(loops));
    ask(x, {dims(at), r.at.valid}, reduce_op(node) == Op::Add, true);
    r.loops = outer;
  } else if (node.is(Op::Bitcast) && node.arg(0).dtype().bits() != node.dtype().bits()) {
    SmallVector<Node, 8> at(r.at.index.args().begin(), r.at.index.args().end());
    int from = node.arg(0).dtype().bytes(), to = node.dtype().bytes();
    Node last = at.back();
    if (from > to) {
      at.back() = rewriter_.rewrite(floor_div(last, index_const(from / to)));
      ask(node.arg(0), {dims(at), r.at.valid}, false, r.in_reduce);
    } else {
      for (int j = 0; j < to / from; ++j) {
        at.back() = rewriter_.rewrite(last * index_const(to / from) + index_const(j));
        ask(node.arg(0), {dims(at), r.at.valid}, false, r.in_reduce);
      }
    }
  } else {
    for (Node a : node.args()) ask(a, {a.rank() == 0 ? Node() : r.at.index, r.at.valid}, false, r.in_reduce);
  }
  requests_[node][index].children = r.children;
  requests_[node][index].ranges = r.ranges;
}

bool Planner::decide_store(Node node, const std::vector<Request>& requests) {
  if (!is_elementwise(node.op()) && !is_tensor_reduce(node) && !node.is(Op::Bitcast)) return false;
  if (node.rank() == 0 && !is_tensor_reduce(node)) return false;
  Usage usage;
  usage.elements = static_cast<double>(numel_max(node));
  usage.kernel_outputs = 1e30;
  for (const Request& r : requests) {
    // A reduce that is no row keeps the loops around it parallel, so it is computed for every turn of them.
    usage.evaluations +=
        is_tensor_reduce(node) ? iterations(r.loops) : turns(r.at.index, nested(r.loops, r.step));
    usage.kernel_work += iterations(r.loops);
    usage.in_foreign_loop |= r.in_reduce && !r.in_sum;
    usage.joins |= r.in_sum;
    usage.kernel_outputs = std::min(usage.kernel_outputs, iterations(loops_of(work(r.step).at)));
  }
  ElementCost cost = costs_[node];
  if (is_tensor_reduce(node)) {
    usage.reduce_extent = static_cast<double>(numel_max(node.arg(0))) / std::max(usage.elements, 1.0);
    // A sum joins only a sum of the same dtype.
    usage.in_foreign_loop |= usage.joins && reduce_op(node) != Op::Add;
  }
  const bool product = is_product_sum(node);
  if (product && !usage.joins)
    for (const Request& r : requests) {
      Node other = work(r.step).product;
      usage.beside_product |= other && other != node && !work(r.step).folds;
    }
  const bool stored = worth_storing(node, cost, usage);
  if (product && !stored)
    for (const Request& r : requests) {
      Work& w = work(r.step);
      w.product = node;
      // Its tiles want the outputs parallel: the rows found before are stored instead.
      plan_.must_store.insert(plan_.must_store.end(), w.rows.begin(), w.rows.end());
    }
  return stored;
}

namespace {

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

// A reduce (or what is made of one) whose result is used in loops that it does not depend on: computed above
// them, those loops inside. The kernel that does it is the one nearest to the inputs; others read what it
// stores.
bool Planner::plan_row(Node node) {
  if (!rows_ || node.rank() == 0) return false;
  Node reduce = row_reduce(node);
  if (!reduce || is_product_sum(reduce)) return false;
  std::vector<Request>& asked = requests_[node];
  int step = -1;
  for (const Request& r : asked) step = std::max(step, r.step);
  Work& w = work(step);
  if (w.product) return false;
  const bool alone =
      std::all_of(asked.begin(), asked.end(), [&](const Request& r) { return r.step == step; });
  if (!alone && device_of(node).empty()) return false;  // the others may be on other devices
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
      if (!contains(outputs, o)) return false;  // computed anew in every step of another reduce
    if (!nest.put_outside(outside)) return false;
    usage.evaluations += iterations(dims(outside));
    inside |= r.in_reduce || outside.size() < outputs.size();
    ++uses;
    // What others read must be stored whole.
    Node at = flat_index(node.shape(), r.at.index ? r.at.index.args() : std::span<const Node>(), rewriter_);
    if (!alone && (r.at.valid || !covers(at, numel_max(node)))) return false;
  }
  usage.parallel_steps = nest.parallel_steps();
  if (!inside || (!alone && uses > 1) || !worth_a_row(usage)) return false;
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

// A value that several loops of one row need, and that is dear to compute: computed once, into a panel. All
// positions must be the same but for axes that each of them runs through whole.
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
      whole &= i.is(Op::Range) && i.arg(0) == node.shape()[a];
    }
    if (same) continue;
    if (!whole) return false;
    row *= extent_of(at[a]);
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
  SmallVector<Node, 8> loops(outside.begin(), outside.end());
  loops = SmallVector<Node, 8>(dims(loops) ? nested(dims(loops), first.step).args() : loops);
  for (Request& r : asked) r.staged = true;
  for (std::size_t a = 0; a < node.rank(); ++a)
    if (contains(made, at[a])) {
      at[a] = range(node.shape()[a], next_range_++, RangeKind::Loop);
      loops.push_back(at[a]);
    }
  request(node, first.step, {dims(at), Node()}, dims(loops), false, first.in_reduce);
  requests_[node].back().fills = true;
  return true;
}

Node Planner::buffer_for(Node node) const { return new_buffer(node.dtype(), numel_max(node), home_of(node)); }

void Planner::plan_copy(Node copy) {
  Node source = copy.arg(0);
  DType dtype = copy.dtype();
  std::int64_t offset = 0;
  Node view = source;
  if (view.is(Op::Bitcast)) view = view.arg(0);
  if (view.is(Op::Shrink) && view.arg(0).is(Op::Buffer) && view.arg(1).is_const()) {
    offset = view.arg(1).int_attr() * view.dtype().bytes();
    view = view.arg(0);
  }
  if (!is_memory(view)) {
    view = source;
    offset = 0;
  }
  int id = new_step(copy, new_buffer(dtype, numel_max(copy), copy.text()));
  PlannedStep& step = plan_.steps[static_cast<std::size_t>(id)];
  step.source = view;
  step.source_offset = offset;
  step.reads.push_back(view);
  plan_.stored[copy] = step.buffer;
  if (!is_memory(view)) needed_in_memory_[view] = 1;
}

// A hand-written kernel is a step as it stands; what it reads has to be in memory.
void Planner::plan_launch(Node launch) {
  int id = new_step(launch, Node());
  PlannedStep& step = plan_.steps[static_cast<std::size_t>(id)];
  const std::vector<SlotUse> uses = slot_uses(hand_written(launch).kernel, launch.arg_count());
  for (std::size_t i = 0; i < launch.arg_count(); ++i) {
    Node memory = launch.arg(i);
    if (uses[i].reads || uses[i].writes) step.reads.push_back(memory);
    if (uses[i].writes) step.written.push_back(memory);
    if (!is_memory(memory)) needed_in_memory_[memory] = 1;
  }
}

// Where a value that is stored lives: a value without a device on that of the first kernel that wants it.
std::string Planner::home_of(Node node) const {
  std::string device = device_of(node);
  if (!device.empty()) return device;
  if (const std::vector<Request>* asked = requests_.find(node); asked != nullptr && !asked->empty())
    return buffer_device(plan_.steps[static_cast<std::size_t>(asked->front().step)].buffer);
  return default_device_;
}

// Whether the kernel of a request can read the buffer. Only a value without a device is asked for by kernels
// of several devices, and the others compute it themselves.
bool Planner::in_reach(Node node, const Request& r, Node buffer) const {
  return buffer_device(plan_.steps[static_cast<std::size_t>(r.step)].buffer) == buffer_device(buffer) ||
         !device_of(node).empty();
}

void Planner::visit(Node node) {
  std::vector<Request>* asked = requests_.find(node);
  bool root = is_root(node);
  if (!root && (asked == nullptr || asked->empty())) return;
  if (node.is(Op::Store)) {
    Node view = node.arg(0), value = node.arg(1), memory = view_memory(view);
    int id = new_step(node, base_memory(memory));
    plan_.steps[static_cast<std::size_t>(id)].written = {memory};
    const Position at = root_position(view.shape());
    start(id, at);
    request(value, id, {value.rank() == 0 ? Node() : at.index, Node()}, loops_of(at), false, false);
    return;
  }
  if (node.is(Op::Launch)) return plan_launch(node);
  if (node.is(Op::Copy) && !is_placement(node)) return plan_copy(node);
  if (is_memory(node) && !root) return;
  if (node.arg_count() == 0 && !root) return;
  if (!root && plan_panel(node)) return expand(node, static_cast<std::uint32_t>(requests_[node].size() - 1));
  const bool stores = root || decide_store(node, *asked);
  if (!root && (stores || is_tensor_reduce(node)) && plan_row(node)) {
    for (std::uint32_t i = 0; i < requests_[node].size(); ++i)
      if (requests_[node][i].row) expand(node, i);
    return;
  }
  if (stores) {
    int id = new_step(node, buffer_for(node));
    Position at = root_position(node.shape());
    start(id, at);
    plan_.stored[node] = plan_.steps[static_cast<std::size_t>(id)].buffer;
    std::uint32_t own = request(node, id, at, loops_of(at), false, false);
    if (!is_memory(node)) expand(node, own);
    for (std::uint32_t i = 0; i < own; ++i)
      if (!in_reach(node, requests_[node][i], plan_.stored[node])) expand(node, i);
    return;
  }
  for (std::uint32_t i = 0; i < requests_[node].size(); ++i) expand(node, i);
}

// ---- writing down

Node Planner::read(Node version, Node buffer, const Request& r) {
  std::vector<Node>& reads = plan_.steps[static_cast<std::size_t>(r.step)].reads;
  if (std::find(reads.begin(), reads.end(), version) == reads.end()) reads.push_back(version);
  Node index =
      flat_index(version.shape(), r.at.index ? r.at.index.args() : std::span<const Node>(), rewriter_);
  return load(buffer, index, r.at.valid);
}

namespace {

// Bits of a wider value taken apart, or of narrower ones put together, least significant first.
Node slice_bits(Node x, DType to, Node position) {
  DType wide = *parse_dtype(fmt::format("u{}", x.dtype().bits())),
        narrow = *parse_dtype(fmt::format("u{}", to.bits()));
  Node shift = cast(position * index_const(to.bits()), wide);
  return bitcast(cast(apply(Op::Shr, bitcast(x, wide), shift), narrow), to);
}
Node join_bits(std::span<const Node> parts, DType to) {
  DType narrow = *parse_dtype(fmt::format("u{}", parts[0].dtype().bits())),
        wide = *parse_dtype(fmt::format("u{}", to.bits()));
  Node out;
  for (std::size_t j = 0; j < parts.size(); ++j) {
    Node part = cast(bitcast(parts[j], narrow), wide);
    if (j > 0)
      part = apply(Op::Shl, part, int_const(wide, static_cast<std::int64_t>(j) * parts[j].dtype().bits()));
    out = out ? apply(Op::Or, out, part) : part;
  }
  return bitcast(out, to);
}

}  // namespace

// A fold whose scores and values are done.
Node Planner::fold_value(Node node, const Request& r) {
  const Fold& fold = folds_[static_cast<std::size_t>(r.fold)];
  RunningMaximum parts = fold.parts;
  parts.scores = (*requests_.find(fold.sum.scores))[r.children[0]].value;
  parts.values = (*requests_.find(node.arg(0).arg(1 - fold.sum.side)))[r.children[1]].value;
  // Beyond the end of the axis a score is no candidate and weighs nothing.
  DType dtype = parts.scores.dtype();
  if (fold.inside)
    parts.scores = where(fold.inside, parts.scores, element_const(dtype, unit_of(Op::Max, dtype)));
  const std::int64_t panel = next_panel_;
  next_panel_ += 2;
  return running_maximum(parts, panel);
}

// The value of a node at a request whose children are done.
Node Planner::value_of(Node node, const Request& r) {
  if (r.fold >= 0) return fold_value(node, r);
  SmallVector<Node, 4> args;
  for (std::size_t i = 0; i < r.children.size(); ++i) {
    Node arg = node.arg(node.is(Op::Bitcast) ? 0 : i);
    args.push_back((*requests_.find(arg))[r.children[i]].value);
  }
  if (is_movement(node.op())) {
    const Position& inner = (*requests_.find(node.arg(0)))[r.children[0]].at;
    bool gates = inner.valid && inner.valid != r.at.valid;
    return gates ? where(inner.valid, args[0], zero_of(args[0].dtype())) : args[0];
  }
  if (is_tensor_reduce(node)) {
    for (std::int64_t axis : reduce_axis_list(node))
      if (node.arg(0).shape()[static_cast<std::size_t>(axis)].is_const_int(0))
        return element_const(node.dtype(), unit_of(reduce_op(node), node.dtype()));
    return reduce_ranges(reduce_op(node), args[0], r.ranges);
  }
  if (is_identity(node)) return args[0];
  if (node.is(Op::Arange)) return cast(r.at.index.arg(0), node.dtype());
  if (node.is(Op::Bitcast)) {
    int from = node.arg(0).dtype().bits(), to = node.dtype().bits();
    if (from == to) return bitcast(args[0], node.dtype());
    if (from < to) return join_bits(args, node.dtype());
    return slice_bits(args[0], node.dtype(),
                      rewriter_.rewrite(floor_mod(r.at.index.args().back(), index_const(from / to))));
  }
  if (node.is(Op::Cast)) return cast(args[0], node.dtype());
  // Padding reads nothing, so nothing there can be wrong.
  if (node.is(Op::Check)) {
    Node when = both(args[2], r.at.valid, rewriter_);
    return check(args[0], args[1], when ? when : bool_const(true), node.text());
  }
  if (is_scalar_op(node.op())) return apply_scalar(node.op(), args);
  throw InternalError("schedule", fmt::format("{} cannot stand in a kernel", info(node.op()).name));
}

void Planner::finish_store(int step, Node value, std::span<const Node> shape, const Position& at,
                           Node target) {
  PlannedStep& s = plan_.steps[static_cast<std::size_t>(step)];
  bool empty = false;
  for (Node d : shape) empty |= d.is_const_int(0);
  if (empty) return;  // nothing to compute: the step stays without a kernel and is dropped
  SmallVector<Node, 8> effects;
  effects.push_back(end(store(s.buffer, target, value), output_ranges(at)));
  const Work& w = work(step);
  effects.append(w.kept_stores.begin(), w.kept_stores.end());
  s.sink = sink(effects);
  if (w.nest.has_rows()) s.sink = substitute(s.sink, w.nest.loops(next_range_));
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

void Planner::finish(Node node) {
  std::vector<Request>* asked = requests_.find(node);
  const int* own_step = step_of_.find(node);
  if (node.is(Op::Store) && own_step != nullptr) {
    // Where in memory the view's element lies: the view's movement ops, followed down to the buffer.
    Node view = node.arg(0), value = node.arg(1);
    const Position at = work(*own_step).at;
    Position p = at;
    while (is_movement(view.op())) {
      p = map_position(view, p, rewriter_);
      view = view.arg(0);
    }
    if (p.valid) throw InternalError("schedule", "a store into a padded view");
    Node v;
    for (const Request& r : *requests_.find(value))
      if (r.step == *own_step && !r.at.valid && r.at.index == (value.rank() == 0 ? Node() : at.index))
        v = r.value;
    Node target = flat_index(view.shape(), p.index ? p.index.args() : std::span<const Node>(), rewriter_);
    finish_store(*own_step, v, node.arg(0).shape(), at, target);
    return;
  }
  if (asked == nullptr) return;
  const Node* buffer = plan_.stored.find(node);
  const int* kept_in = kept_in_.find(node);
  if (asked->back().fills) {
    plan_.steps[static_cast<std::size_t>(asked->back().step)].ops.push_back(node);
    return fill_panel(node);
  }
  for (Request& r : *asked) {
    bool own = own_step != nullptr && r.step == *own_step && buffer != nullptr;
    if (!node.is(Op::Copy) || is_placement(node)) {
      auto& ops = plan_.steps[static_cast<std::size_t>(r.step)].ops;
      if ((own || r.row || buffer == nullptr) && (is_elementwise(node.op()) || is_tensor_reduce(node)))
        ops.push_back(node);
    }
    if (r.row) {
      r.value = value_of(node, r);
      if (kept_in != nullptr) keep(node, r);
    } else if (own) {
      Node value = is_memory(node) ? read(node, base_memory(node), r) : value_of(node, r);
      if (is_memory(node)) r.value = value;
      Node target =
          flat_index(node.shape(), r.at.index ? r.at.index.args() : std::span<const Node>(), rewriter_);
      finish_store(r.step, value, node.shape(), r.at, target);
    } else if (buffer != nullptr && in_reach(node, r, *buffer)) {
      r.value = read(node, *buffer, r);
    } else if (is_memory(node)) {
      r.value = read(node, base_memory(node), r);
    } else if (node.is_const() || node.is(Op::Var)) {
      r.value = node;
    } else {
      r.value = value_of(node, r);
    }
  }
}

// What cannot be done in one kernel: reading two versions of a buffer, or reading at another index what it
// overwrites.
void Planner::check_hazards() {
  for (PlannedStep& s : plan_.steps) {
    for (std::size_t i = 0; i < s.reads.size(); ++i)
      for (std::size_t j = 0; j < s.reads.size(); ++j) {
        Node a = s.reads[i], b = s.reads[j];
        if (i == j || !is_memory(a) || !is_memory(b) || plan_.stored.contains(a) || plan_.stored.contains(b))
          continue;
        if (base_memory(a) != base_memory(b)) continue;
        // `a` is the older one if it lies under `b`.
        for (Node v = b; v.is(Op::After); v = v.arg(0))
          if (v.arg(0) == a) plan_.must_store.push_back(a);
      }
    if (!s.root.is(Op::Store) || !s.sink) continue;
    Node kernel = s.sink.arg(0);
    Node effect = kernel.is(Op::End) ? kernel.arg(0) : kernel;
    Node written = simplify(effect.arg(1));
    for (Node n : toposort(s.sink))
      if (n.is(Op::Load) && n.arg(0) == s.buffer && simplify(n.arg(1)) != written) {
        plan_.must_store.push_back(s.root.arg(1));
        break;
      }
  }
}

Plan Planner::run() {
  order_ = toposort(targets_);
  costs_ = element_costs(order_);
  for (Node n : order_) {
    int depth = 0;
    for (Node a : n.args()) depth = std::max(depth, *reduce_depth_.find(a));
    reduce_depth_[n] = depth + (is_tensor_reduce(n) ? 1 : 0);
    for (std::size_t i = 0; i < n.arg_count(); ++i)
      if (i == 0 || n.arg(i) != n.arg(i - 1)) ++uses_[n.arg(i)];
  }
  for (const auto& [n, one] : forced_) ++uses_[n];
  for (std::size_t i = order_.size(); i-- > 0;) visit(order_[i]);
  for (Node n : order_) finish(n);
  check_hazards();
  return std::move(plan_);
}

}  // namespace lathe
