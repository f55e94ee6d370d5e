#include "schedule/planner.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/device_of.h"
#include "ir/launch.h"
#include "ir/ranges.h"
#include "ir/shape.h"
#include "rules/simplify.h"
#include "schedule/compared.h"
#include "schedule/planner_parts.h"

namespace lathe {
namespace {

bool is_identity(Node n) { return n.is(Op::Contiguous) || n.is(Op::Copy); }

bool is_reduction(Node n) { return is_tensor_reduce(n) || n.is(Op::RaggedReduce); }

// Whether computing `value` needs `part`, as far as a few steps show.
bool made_of(Node value, Node part) {
  constexpr std::size_t kNear = 64;
  std::vector<Node> seen{value};
  for (std::size_t i = 0; i < seen.size() && i < kNear; ++i) {
    if (seen[i] == part) return true;
    for (Node a : seen[i].args())
      if (std::find(seen.begin(), seen.end(), a) == seen.end()) seen.push_back(a);
  }
  return false;
}

}  // namespace

bool is_memory(Node node) { return node.is(Op::Buffer) || node.is(Op::After); }

Node view_memory(Node view) {
  view = viewed(view);
  if (!is_memory(view))
    throw InternalError("schedule",
                        fmt::format("a store into {}, which is not memory", info(view.op()).name));
  return view;
}

Planner::Planner(std::span<const Node> targets, const NodeMap<char>& forced, const ScheduleOptions& options,
                 const Compile& compile)
    : targets_(targets),
      forced_(forced),
      default_device_(options.default_device),
      // A group's share of a row depends on how its elements lie, and so may the order of its sums.
      rows_(compile.invariant && options.rows == Rows::Group ? Rows::Apart : options.rows),
      folds_on_groups_(options.unit_folds),
      invariant_(compile.invariant),
      rebuilt_bytes_(options.rebuilt_bytes),
      rewriter_(simplify_rules(), compile.rules) {}

bool Planner::is_root(Node node) const {
  return node.is(Op::Store) || node.is(Op::Launch) || (node.is(Op::Copy) && !is_placement(node)) ||
         node.is(Op::Contiguous) || is_sequential(node) || forced_.contains(node) ||
         needed_in_memory_.contains(node);
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

// Indices are simplified with the ranges in them, so the extent of a range must already be simplified:
// otherwise the range that is closed would differ from the one that is used.
Node Planner::new_range(Node extent, RangeKind kind) {
  return range(rewriter_.rewrite(extent), next_range_++, kind);
}

// One range per axis; axes of size 1 need none.
Position Planner::root_position(std::span<const Node> shape) {
  SmallVector<Node, 8> index;
  for (Node d : shape) index.push_back(d.is_const_int(1) ? index_const(0) : new_range(d, RangeKind::Global));
  return {dims(index), Node()};
}

int Planner::new_step(Node root, Node buffer) {
  PlannedStep step;
  step.root = root;
  step.buffer = buffer;
  plan_.steps.push_back(std::move(step));
  work_.emplace_back();
  if (is_product_sum(root) || root.is(Op::RaggedReduce) || is_sequential(root)) work_.back().product = root;
  int id = static_cast<int>(plan_.steps.size() - 1);
  step_of_[root] = id;
  return id;
}

void Planner::start(int step, const Position& at) {
  work(step).at = at;
  work(step).nest = Nest(output_ranges(at));
}

// Asks the operands of `node` for what request `index` needs of them.
void Planner::expand(Node node, std::uint32_t index) {
  plan_.steps[static_cast<std::size_t>(requests_[node][index].step)].weight += kernel_weight(node);
  if (is_tensor_reduce(node)) {
    if (plan_fold(node, index)) return;
    if (const SoftmaxSum* sum = rebuilt_.folds.find(node)) plan_.must_store.push_back(sum->softmax.weights);
  }
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
      at[a] = r.row ? shared[i] : new_range(d, RangeKind::Reduce);
      r.ranges.push_back(at[a]);
    }
    SmallVector<Node, 8> loops;
    if (r.loops) loops.append(r.loops.args().begin(), r.loops.args().end());
    loops.append(r.ranges.begin(), r.ranges.end());
    Node outer = std::exchange(r.loops, dims(loops));
    ask(x, {dims(at), r.at.valid}, reduce_op(node) == Op::Add, true);
    r.loops = outer;
  } else if (node.is(Op::Take)) {
    expand_take(node, r);
  } else if (node.is(Op::RaggedReduce)) {
    expand_ragged(node, r);
  } else if (is_sequential(node)) {
    expand_in_order(node, r);
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

namespace {

// What can be stored and read back instead of being computed where it is used.
bool is_value(Node node) {
  return is_elementwise(node.op()) || is_reduction(node) || node.is(Op::Bitcast) || node.is(Op::Take);
}

}  // namespace

// Whether a kernel that needs the value is long already, so that the value begins another.
bool Planner::is_cut(Node node, const std::vector<Request>& requests) const {
  return is_value(node) && worth_cutting(*costs_.find(node)) &&
         std::any_of(requests.begin(), requests.end(), [&](const Request& r) {
           return is_long_kernel(plan_.steps[static_cast<std::size_t>(r.step)].weight);
         });
}

bool Planner::decide_store(Node node, const std::vector<Request>& requests) {
  if (!is_value(node)) return false;
  if (compared_.contains(node) && requests.size() > 1) return true;
  if (node.rank() == 0 && !is_reduction(node)) return false;
  Usage usage;
  usage.elements = static_cast<double>(numel_max(node));
  usage.kernel_outputs = 1e30;
  auto joined = [&](const Request& r) {
    const SmallVector<Node, 8> outputs = output_ranges(work(r.step).at);
    return iterations(r.loops) * share_taken(r.at, node.shape(), outputs.empty() ? Node() : outputs.back());
  };
  for (const Request& r : requests) {
    // A reduce that is no row keeps the loops around it parallel, so it is computed for every turn of them.
    const double times = !is_reduction(node) ? turns(r.at.index, nested(r.loops, r.step))
                         : r.in_sum          ? joined(r)
                                             : iterations(r.loops);
    // A tile that reaches beyond the end of its axis costs a unit nothing that storing scores would save.
    const bool in_tile = rows_ == Rows::Group && work(r.step).folds && is_reduction(node);
    usage.evaluations += in_tile ? std::min(times, usage.elements) : times;
    usage.kernel_work += iterations(r.loops);
    usage.in_foreign_loop |= r.in_reduce && !r.in_sum;
    usage.joins |= r.in_sum;
    usage.kernel_outputs = std::min(usage.kernel_outputs, iterations(loops_of(work(r.step).at)));
  }
  ElementCost cost = costs_[node];
  if (is_reduction(node)) {
    usage.reduce_extent = static_cast<double>(numel_max(node.arg(0))) / std::max(usage.elements, 1.0);
    // A sum joins only a sum of the same dtype.
    usage.in_foreign_loop |= usage.joins && (reduce_op(node) != Op::Add || node.is(Op::RaggedReduce));
  }
  // A ragged reduce beside a product would cost the product its tiles.
  const bool product = is_product_sum(node) || node.is(Op::RaggedReduce);
  // Neighbours of a divided position are no neighbours in the factors, so no tile of a product fits them.
  for (const Request& r : requests) usage.in_foreign_loop |= product && r.in_sum && divides(r.at.index);
  if (product && !usage.joins)
    for (const Request& r : requests) {
      const Work& w = work(r.step);
      const bool again = std::any_of(requests.begin(), requests.end(), [&](const Request& other) {
        return &other != &r && other.step == r.step;
      });
      usage.beside_product |= (again || (w.product && w.product != node)) && !w.folds;
    }
  usage.invariant = invariant_;
  if (worth_storing(node, cost, usage)) return true;
  if (!product) return false;
  // The product's tiles need parallel outputs. If a row is computed from the product, the product gets a
  // separate kernel; otherwise the rows are stored.
  for (const Request& r : requests)
    for (Node row : work(r.step).rows)
      if (made_of(row, node)) return true;
  for (const Request& r : requests) {
    Work& w = work(r.step);
    w.product = node;
    plan_.must_store.insert(plan_.must_store.end(), w.rows.begin(), w.rows.end());
  }
  return false;
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

// A hand-written kernel is a step as it is; what it reads has to be in memory.
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

// Values made of constants alone have none.
bool Planner::has_device(Node node) const { return static_cast<bool>(*device_sources_.find(node)); }

// A copy of a value that has no device yet only says where it is to be computed.
bool Planner::is_placement(Node node) const { return node.is(Op::Copy) && !has_device(node.arg(0)); }

// Where a value that is stored lives: a value without a device on that of the first kernel that wants it.
std::string Planner::home_of(Node node) const {
  if (Node source = *device_sources_.find(node)) return source.text();
  if (const std::vector<Request>* asked = requests_.find(node); asked != nullptr && !asked->empty())
    return buffer_device(plan_.steps[static_cast<std::size_t>(asked->front().step)].buffer);
  return default_device_;
}

// Whether the kernel of a request can read the buffer. Only a value without a device is asked for by kernels
// of several devices, and the others compute it themselves.
bool Planner::in_reach(Node node, const Request& r, Node buffer) const {
  return buffer_device(plan_.steps[static_cast<std::size_t>(r.step)].buffer) == buffer_device(buffer) ||
         has_device(node);
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
  if (!root && plan_rebuilt(node)) return;
  const bool part = rebuilt_.kept.contains(node) || rebuilt_.folds.contains(node);
  if (!root && !part && plan_panel(node)) return;
  const bool cut = !root && is_cut(node, *asked), stores = root || cut || part || decide_store(node, *asked);
  if (!root && !part && !cut && (stores || is_tensor_reduce(node)) && plan_row(node)) {
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

// The operand that child `i` of a request was asked of.
Node asked_operand(Node node, std::size_t i) {
  if (node.is(Op::Bitcast)) return node.arg(0);
  // The rows of a RaggedReduce are not read: its lists say the same.
  if (node.is(Op::RaggedReduce) && i > 0) return node.arg(i + 1);
  // The index of a Scan is read at the step and at the output.
  return node.arg(node.is(Op::Scan) ? std::min<std::size_t>(i, 1) : i);
}

}  // namespace

// The value of a node at a request whose children are done.
Node Planner::value_of(Node node, const Request& r) {
  if (r.fold >= 0) return fold_value(node, r);
  SmallVector<Node, 4> args;
  for (std::size_t i = 0; i < r.children.size(); ++i)
    args.push_back((*requests_.find(asked_operand(node, i)))[r.children[i]].value);
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
  if (node.is(Op::Take)) return take_value(node, r, args);
  if (node.is(Op::RaggedReduce)) return ragged_value(node, r, args);
  if (is_sequential(node)) return in_order_value(node, r, args);
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
  throw InternalError("schedule", fmt::format("{} is not allowed in a kernel", info(node.op()).name));
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
      if ((own || r.row || buffer == nullptr) &&
          (is_elementwise(node.op()) || is_reduction(node) || is_sequential(node) || node.is(Op::Take)))
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

// Finds hazards that are impossible in one kernel: reading two versions of a buffer, or reading what it
// overwrites at another index.
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
    const RuleChanges& rules = rewriter_.changes();
    Node written = simplify(effect.arg(1), rules);
    for (Node n : toposort(s.sink))
      if (n.is(Op::Load) && n.arg(0) == s.buffer && simplify(n.arg(1), rules) != written) {
        plan_.must_store.push_back(s.root.arg(1));
        break;
      }
  }
}

// What is stored for the sake of a narrower number alone (a sum of products of 16 bits, kept for a gradient)
// is stored as that number: every kernel that reads it reads less, and none rounds it again.
void Planner::narrow_stores() {
  auto only_user = [&](Node node) {
    const int* count = uses_.find(node);
    const Node* user = last_user_.find(node);  // none where only the caller wants it
    return count != nullptr && *count == 1 && user != nullptr ? *user : Node();
  };
  for (const PlannedStep& step : plan_.steps) {
    if (!plan_.stored.contains(step.root) || is_root(step.root) || rebuilt_.kept.contains(step.root))
      continue;
    Node user = only_user(step.root);
    while (user && (user.is(Op::Reshape) || user.is(Op::Permute))) user = only_user(user);
    if (user && user.is(Op::Cast) && user.dtype().bytes() < step.root.dtype().bytes())
      plan_.must_store.push_back(user);
  }
}

Plan Planner::run() {
  order_ = toposort(targets_);
  for (Node n : order_) {
    int depth = 0;
    for (Node a : n.args()) depth = std::max(depth, *reduce_depth_.find(a));
    reduce_depth_[n] = depth + (is_tensor_reduce(n) ? 1 : 0);
    for (std::size_t i = 0; i < n.arg_count(); ++i)
      if (i == 0 || n.arg(i) != n.arg(i - 1)) {
        ++uses_[n.arg(i)];
        last_user_[n.arg(i)] = n;
      }
  }
  for (const auto& [n, one] : forced_) ++uses_[n];
  device_sources_ = device_sources(order_);
  costs_ = element_costs(order_, uses_, invariant_);
  compared_ = compared_values(order_, uses_);
  const bool on_unit = rows_ == Rows::Group && folds_on_groups_;
  if ((rows_ == Rows::Thread || on_unit) && !rewriter_.changes().disables(kRebuiltWeightsRule) &&
      !rewriter_.changes().disables(kRunningMaximumRule))
    rebuilt_ = find_rebuilt_weights(order_, forced_, rebuilt_bytes_, on_unit);
  for (std::size_t i = order_.size(); i-- > 0;) visit(order_[i]);
  for (Node n : order_) finish(n);
  check_hazards();
  narrow_stores();
  return std::move(plan_);
}

}  // namespace lathe
