#include "codegen/options/option_state.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/planted.h"
#include "codegen/options/join_ranges.h"
#include "codegen/options/matrix_unit.h"
#include "codegen/options/paired_unit.h"
#include "ir/build.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe {
namespace {

constexpr std::int64_t kStandInIds = std::int64_t{1} << 32;  // beyond the ids of real ranges
constexpr std::int64_t kMostCopies = 4096;                   // of a kernel's body in one step

// About how many instructions a node becomes. An index is mostly shared by the copies of what uses it.
double instructions_of(Node n) {
  constexpr double kPolynomial = 40, kAngle = 600;  // which is brought into range first, far ones by a table
  if (n.dtype().is_index()) return 0;
  switch (n.op()) {
    case Op::Sin:
    case Op::Cos: return kAngle;
    case Op::Exp2:
    case Op::Log2: return kPolynomial;
    default: return n.arg_count() > 0 ? 1 : 0;
  }
}

Node ceil_div(Node x, std::int64_t n) { return floor_div(x + index_const(n - 1), index_const(n)); }

}  // namespace

OptionState::OptionState(Node kernel, const Target& target, const RuleChanges& rules)
    : kernel_(kernel), target_(&target), rules_(&rules) {
  for (Node r : all_ranges(kernel)) {
    Axis axis;
    axis.origin = static_cast<int>(origins_.size());
    axis.kind = range_kind(r);
    axis.extent = r.arg(0);
    axis.stand_in = stand_in(axis.extent);
    origins_.push_back({r, axis.stand_in, {}, false, false});
    insert(axes_.size(), axis);
  }
  std::vector<Together> together;
  NodeMap<std::size_t> sets;  // equal sets are equal nodes
  for (Node n : toposort(kernel)) {
    has_panels_ |= n.is(Op::Define);
    if (n.is(Op::Fold)) {  // it stands for its components, which are computed side by side
      for (Node r : closed_ranges(n))
        for (Origin& origin : origins_) origin.carries_tuple |= origin.range == r;
      continue;
    }
    std::span<const Node> ranges = ranges_of(n);
    Node set(n->ranges.load(std::memory_order_acquire));
    if (ranges.empty()) continue;
    auto [at, fresh] = sets.try_emplace(set, together.size());
    if (fresh) {
      together.emplace_back();
      for (std::size_t i = 0; i < origins_.size(); ++i)
        if (std::find(ranges.begin(), ranges.end(), origins_[i].range) != ranges.end())
          together.back().origins.push_back(static_cast<int>(i));
    }
    together[*at].instructions += instructions_of(n);
  }
  together_ = std::make_shared<const std::vector<Together>>(std::move(together));
}

Node OptionState::stand_in(Node extent) {
  return range(extent, kStandInIds + next_stand_in_++, RangeKind::Loop);
}

bool OptionState::refuse(const std::string& reason) {
  refusal_ = {to_string({opt_, 1}), reason,
              fmt::format("the kernel has {} range{} here", axes_.size(), axes_.size() == 1 ? "" : "s")};
  return false;
}

std::nullopt_t OptionState::nothing(const std::string& reason) {
  static_cast<void>(refuse(reason));
  return std::nullopt;
}

std::optional<std::size_t> OptionState::position(std::int64_t axis) {
  if (axis >= 0 && static_cast<std::size_t>(axis) < axes_.size()) return static_cast<std::size_t>(axis);
  return nothing(fmt::format("there is no axis {}: the list has {}", axis, axes_.size()));
}

bool OptionState::is_loop_of(std::size_t at, Node range) const {
  const Axis& axis = axes_[at];
  bool loop =
      axis.kind == RangeKind::Global || axis.kind == RangeKind::Loop || axis.kind == RangeKind::Reduce;
  return loop && origins_[static_cast<std::size_t>(axis.origin)].range == range;
}

int OptionState::loop_position(Node range) const {
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (is_loop_of(i, range)) return static_cast<int>(i);
  return -1;
}

int OptionState::last_loop_position(Node range) const {
  for (std::size_t i = axes_.size(); i-- > 0;)
    if (is_loop_of(i, range)) return static_cast<int>(i);
  return -1;
}

std::optional<std::size_t> OptionState::reduce_position(int axis) {
  int seen = 0;
  std::string reason;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].kind != RangeKind::Reduce || seen++ != axis) continue;
    if (!origins_[static_cast<std::size_t>(axes_[i].origin)].carries_tuple) return i;
    reason = "a reduce that carries a tuple takes its steps one after the other";
    break;
  }
  if (reason.empty()) reason = fmt::format("there is no reduce axis {}: the list has {}", axis, seen);
  return nothing(reason);
}

std::optional<std::int64_t> OptionState::size_arg(std::size_t at, bool zero_is_whole) {
  const std::int64_t size = opt_->arg.empty() ? -1 : opt_->arg[0];
  if (size > 0) return size;
  std::string reason;
  if (opt_->arg.empty())
    reason = "a size is needed";
  else if (size < 0 || !zero_is_whole)
    reason = fmt::format("the size must be positive, not {}", size);
  else if (!axes_[at].extent.is_const())
    reason = "only a range of constant extent can be taken whole";
  else
    return std::max<std::int64_t>(axes_[at].extent.const_int(), 1);
  return nothing(reason);
}

bool OptionState::need_kind(std::size_t at, std::initializer_list<RangeKind> kinds, const char* what) {
  for (RangeKind k : kinds)
    if (axes_[at].kind == k) return true;
  return refuse(fmt::format("axis {} is of kind {}, not {}", at, name(axes_[at].kind), what));
}

// Where LOCAL and GROUP ranges go: after everything that is spread over groups.
std::size_t OptionState::after_launch() const {
  std::size_t to = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    for (RangeKind k : {RangeKind::Thread, RangeKind::Global, RangeKind::Local, RangeKind::Group})
      if (axes_[i].kind == k) to = i + 1;
  return to - lane_axes_;
}

void OptionState::insert(std::size_t to, Axis axis) {
  axes_.insert(axes_.begin() + static_cast<std::ptrdiff_t>(to), std::move(axis));
  serials_.insert(serials_.begin() + static_cast<std::ptrdiff_t>(to), next_serial_++);
}

// Axis `at` now is `index` over newer stand-ins. With `gate_limit`, not every index below it exists, and it
// needs a gate, unless the axis is the leading part of a range that is gated as a whole: a step too many
// there is a step beyond the range's end.
void OptionState::become(std::size_t at, Node index, Node gate_limit) {
  Origin& origin = origins_[static_cast<std::size_t>(axes_[at].origin)];
  NodeMap<Node> map;
  map.try_emplace(axes_[at].stand_in, index);
  origin.index = substitute(origin.index, map);
  for (Node& gate : origin.gates) gate = substitute(gate, map);
  if (!gate_limit || (axes_[at].leading && origin.whole_gated)) return;
  origin.gates.push_back(less(index, gate_limit));
  origin.whole_gated |= axes_[at].leading;
}

void OptionState::drop_if_single(std::size_t at) {
  if (!axes_[at].extent.is_const_int(1)) return;
  become(at, index_const(0), Node());
  // What was staged at this loop is staged at the next one out.
  for (StageRequest& request : stages_)
    if (request.axis_serial == serials_[at]) request.axis_serial = at > 0 ? serials_[at - 1] : kBeforeLoops;
  axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(at));
  serials_.erase(serials_.begin() + static_cast<std::ptrdiff_t>(at));
}

void OptionState::split_low(std::size_t at, std::int64_t size, RangeKind kind, std::size_t to) {
  if (size == 1) return;
  Node extent = axes_[at].extent;
  bool exact = extent.is_const() && extent.const_int() % size == 0;
  Axis inner{axes_[at].origin, kind, index_const(size), stand_in(index_const(size)), false};
  Node steps = ceil_div(extent, size), outer = stand_in(steps);
  const std::int64_t stride = planted(Fault::SplitStride) ? size - 1 : size;
  exact |= planted(Fault::SplitGate);
  become(at, outer * index_const(stride) + inner.stand_in, exact ? Node() : extent);
  axes_[at].extent = steps;
  axes_[at].stand_in = outer;
  insert(to, inner);
  drop_if_single(to <= at ? at + 1 : at);
}

void OptionState::split_high(std::size_t at, std::int64_t size, RangeKind kind, std::size_t to) {
  if (size == 1) return;
  Node extent = axes_[at].extent;
  bool exact = extent.is_const() && extent.const_int() % size == 0;
  Axis parts{axes_[at].origin, kind, index_const(size), stand_in(index_const(size)), axes_[at].leading};
  Node steps = ceil_div(extent, size), inner = stand_in(steps);
  Node begin = parts.stand_in * steps;
  if (planted(Fault::SplitHigh)) begin = min(begin + min(begin, index_const(1)), extent + index_const(-1));
  become(at, begin + inner, exact ? Node() : extent);
  axes_[at].extent = steps;
  axes_[at].stand_in = inner;
  axes_[at].leading = false;
  insert(to, parts);
  drop_if_single(to <= at ? at + 1 : at);
}

// The outer half moves to `to`, the inner half stays. The loop that STAGE and the user know as "the outer
// half" is new.
void OptionState::split_apart(std::size_t at, std::int64_t size, std::size_t to) {
  Node extent = axes_[at].extent;
  bool exact = extent.is_const() && extent.const_int() % size == 0;
  Axis outer{axes_[at].origin, axes_[at].kind, ceil_div(extent, size), Node(), axes_[at].leading};
  outer.stand_in = stand_in(outer.extent);
  Node inner = stand_in(index_const(size));
  const std::int64_t stride = planted(Fault::TileStride) ? size - 1 : size;
  become(at, outer.stand_in * index_const(stride) + inner, exact ? Node() : extent);
  axes_[at].extent = index_const(size);
  axes_[at].stand_in = inner;
  axes_[at].leading = false;
  // On a GPU the inner half is a block that one thread works through, unless the outer half moves past other
  // launched ranges: then both are launched, and it is the order of the groups that changes.
  const bool orders_groups = to < at && std::any_of(
                                            axes_.begin() + static_cast<std::ptrdiff_t>(to),
                                            axes_.begin() + static_cast<std::ptrdiff_t>(at),
                                            [](const Axis& axis) { return axis.kind == RangeKind::Global; });
  if (axes_[at].kind == RangeKind::Global && target_->groups && !orders_groups)
    axes_[at].kind = RangeKind::Loop;
  insert(to, outer);
  std::size_t stays = to <= at ? at + 1 : at;
  for (std::size_t i : {std::max(to, stays), std::min(to, stays)}) drop_if_single(i);
}

void OptionState::widen(std::size_t at, std::int64_t multiple) {
  Node extent = axes_[at].extent;
  if (extent.is_const() && extent.const_int() % multiple == 0) return;
  Node padded = ceil_div(extent, multiple) * index_const(multiple), wider = stand_in(padded);
  become(at, wider, planted(Fault::PadGate) ? Node() : extent);
  axes_[at].extent = padded;
  axes_[at].stand_in = wider;
}

std::size_t OptionState::threads_of(std::size_t position) const {
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (serials_[i] == axes_[position].threads) return i;
  return position;
}

// Whether nothing depends on both ranges: they are loops one after the other.
bool OptionState::are_apart(int origin, int other) const {
  return std::none_of(together_->begin(), together_->end(), [&](const Together& set) {
    auto has = [&](int o) {
      return std::find(set.origins.begin(), set.origins.end(), o) != set.origins.end();
    };
    return has(origin) && has(other);
  });
}

// A loop, or a reduce, that the threads of a group divide. Loops that run one after the other are divided
// among the same threads, where as many are wanted.
void OptionState::divide_among_threads(std::size_t loop, std::int64_t size, bool in_parts) {
  const int serial = next_serial_;
  if (size == 1) return;
  if (in_parts)
    split_high(loop, size, RangeKind::Group, after_launch());
  else
    split_low(loop, size, RangeKind::Group, after_launch());
  std::size_t at = 0;
  while (serials_[at] != serial) ++at;
  for (std::size_t first = 0; first < axes_.size(); ++first) {
    if (first == at || axes_[first].kind != RangeKind::Group || threads_of(first) != first) continue;
    if (axes_[first].extent != axes_[at].extent) continue;
    bool apart = true;
    for (std::size_t i = 0; i < axes_.size(); ++i)
      if (i != at && axes_[i].kind == RangeKind::Group && threads_of(i) == first)
        apart &= are_apart(axes_[i].origin, axes_[at].origin);
    if (!apart) continue;
    axes_[at].threads = serials_[first];
    return;
  }
}

std::int64_t OptionState::copies() const {
  std::int64_t most = 1;
  for (const Together& set : *together_) {
    std::int64_t copies = 1;
    for (std::size_t i = 0; i + fragment_axes_ < axes_.size() && copies <= kMostCopies; ++i) {
      const Axis& axis = axes_[i];
      if (!in_registers(axis.kind)) continue;
      if (std::find(set.origins.begin(), set.origins.end(), axis.origin) == set.origins.end()) continue;
      copies *= std::min(std::max<std::int64_t>(axis.extent.hi(), 1), kMostCopies + 1);
    }
    most = std::max(most, copies);
  }
  return most;
}

double OptionState::body_length() const {
  const double lanes = target_->vectors ? std::max(target_->vector_bytes / 4, 1) : 1;
  double length = 0;
  for (const Together& set : *together_) {
    double copies = 1, longest = 1;
    for (std::size_t i = 0; i + fragment_axes_ < axes_.size(); ++i) {
      const Axis& axis = axes_[i];
      if (!in_registers(axis.kind)) continue;
      if (std::find(set.origins.begin(), set.origins.end(), axis.origin) == set.origins.end()) continue;
      const auto extent = static_cast<double>(std::max<std::int64_t>(axis.extent.hi(), 1));
      copies *= extent;
      longest = std::max(longest, extent);
    }
    length += set.instructions * copies / std::min(lanes, longest);
  }
  return length;
}

bool OptionState::within_limits() {
  auto is_thread = [](const Axis& a) { return in_group(a.kind); };
  bool meets = !stages_.empty() || std::any_of(axes_.begin(), axes_.end(),
                                               [](const Axis& a) { return a.kind == RangeKind::Group; });
  for (const Axis& ragged : axes_)
    for (Node r : ranges_of(ragged.extent))
      for (const Axis& a : axes_)
        if (meets && is_thread(a) && origins_[static_cast<std::size_t>(a.origin)].range == r)
          return refuse("the threads of a group would meet at barriers a different number of times");
  for (std::size_t i = 0; i < axes_.size(); ++i)
    for (Node r : ranges_of(origins_[static_cast<std::size_t>(axes_[i].origin)].range.arg(0)))
      for (std::size_t j = i + 1; j < axes_.size(); ++j)
        if (origins_[static_cast<std::size_t>(axes_[j].origin)].range == r)
          return refuse(
              fmt::format("the extent of axis {} depends on axis {}, which would stand inside it", i, j));
  if (!stages_.empty() && std::any_of(axes_.begin(), axes_.end(), is_thread)) {
    bool reduces = false;
    for (const Axis& a : axes_) {
      reduces |= a.kind == RangeKind::Reduce;
      if (reduces && a.kind == RangeKind::Global)
        return refuse("a group would fill its panels in a reduce that stands outside the outputs");
    }
  }
  for (std::size_t o = 0; o < origins_.size(); ++o) {
    if (!origins_[o].carries_tuple) continue;
    std::int64_t outer = std::numeric_limits<std::int64_t>::max();
    const Linear index = linear(origins_[o].index);
    for (const Axis& axis : axes_)
      for (const Term& t : index.terms) {
        if (static_cast<std::size_t>(axis.origin) != o || t.node != axis.stand_in) continue;
        if (t.coefficient > outer)
          return refuse("a reduce that carries a tuple takes its steps one after the other");
        outer = t.coefficient;
      }
  }
  std::int64_t group = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (is_thread(axes_[i]) && threads_of(i) == i) group *= std::max<std::int64_t>(axes_[i].extent.hi(), 1);
  if (copies() > kMostCopies)
    return refuse(fmt::format("the body would be copied more than {} times", kMostCopies));
  if (group > target_->max_group)
    return refuse(fmt::format("the group would have {} threads, more than the {} of target {}", group,
                              target_->max_group, target_->name));
  return true;
}

std::vector<Node> stageable_values(Node kernel) {
  std::vector<Node> values;
  NodeMap<char> known;
  std::vector<Node> order = toposort(kernel);
  auto add = [&](Node n) {
    if (known.try_emplace(n).second) values.push_back(n);
  };
  for (Node n : order)
    if (n.is(Op::Load)) add(n);
  for (Node n : order) {
    if (!n.is(Op::Reduce)) continue;
    std::vector<Node> factors{n.arg(0)};
    for (std::size_t i = 0; i < factors.size();) {
      // What an offset takes away again is a product of the same words.
      if (factors[i].is(Op::Sub) && factors[i].arg(0).is(Op::Dot)) factors[i] = factors[i].arg(0);
      if (!factors[i].is(Op::Mul) && !factors[i].is(Op::Dot)) {
        ++i;
        continue;
      }
      Node product = factors[i];
      factors[i] = product.arg(0);
      factors.insert(factors.begin() + static_cast<std::ptrdiff_t>(i) + 1, product.arg(1));
    }
    for (Node f : factors) add(f);
  }
  return values;
}

}  // namespace lathe
