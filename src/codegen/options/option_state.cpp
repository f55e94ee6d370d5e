#include "codegen/options/option_state.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/options/join_ranges.h"
#include "codegen/options/matrix_unit.h"
#include "ir/build.h"
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

OptionState::OptionState(Node kernel, const Target& target) : kernel_(kernel), target_(&target) {
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
    if (n.is(Op::Fold))
      for (Node r : closed_ranges(n))
        for (Origin& origin : origins_) origin.carries_tuple |= origin.range == r;
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

void OptionState::refuse(const std::string& reason) const {
  throw KernelOptError(to_string({opt_, 1}), reason)
      .note(fmt::format("the kernel has {} range{} here", axes_.size(), axes_.size() == 1 ? "" : "s"));
}

std::size_t OptionState::position(int axis) const {
  if (axis < 0 || static_cast<std::size_t>(axis) >= axes_.size())
    refuse(fmt::format("there is no axis {}: the list has {}", axis, axes_.size()));
  return static_cast<std::size_t>(axis);
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

std::size_t OptionState::reduce_position(int axis) const {
  int seen = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].kind != RangeKind::Reduce || seen++ != axis) continue;
    if (origins_[static_cast<std::size_t>(axes_[i].origin)].carries_tuple)
      refuse("a reduce that carries a tuple takes its steps one after the other");
    return i;
  }
  refuse(fmt::format("there is no reduce axis {}: the list has {}", axis, seen));
}

std::int64_t OptionState::size_arg(std::size_t at, bool zero_is_whole) const {
  if (opt_->arg.empty()) refuse("a size is needed");
  std::int64_t size = opt_->arg[0];
  if (size < 0 || (size == 0 && !zero_is_whole))
    refuse(fmt::format("the size must be positive, not {}", size));
  if (size > 0) return size;
  if (!axes_[at].extent.is_const()) refuse("only a range of constant extent can be taken whole");
  return std::max<std::int64_t>(axes_[at].extent.const_int(), 1);
}

void OptionState::need_kind(std::size_t at, std::initializer_list<RangeKind> kinds, const char* what) const {
  for (RangeKind k : kinds)
    if (axes_[at].kind == k) return;
  refuse(fmt::format("axis {} is of kind {}, not {}", at, name(axes_[at].kind), what));
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
  become(at, outer * index_const(size) + inner.stand_in, exact ? Node() : extent);
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
  become(at, parts.stand_in * steps + inner, exact ? Node() : extent);
  axes_[at].extent = steps;
  axes_[at].stand_in = inner;
  axes_[at].leading = false;
  insert(to, parts);
  drop_if_single(to <= at ? at + 1 : at);
}

// The outer half moves to `to`, the inner half stays. The loop that STAGE and the user know as "the outer
// half" is new.
void OptionState::tile(std::size_t at, std::int64_t size, std::size_t to) {
  Node extent = axes_[at].extent;
  bool exact = extent.is_const() && extent.const_int() % size == 0;
  Axis outer{axes_[at].origin, axes_[at].kind, ceil_div(extent, size), Node(), axes_[at].leading};
  outer.stand_in = stand_in(outer.extent);
  Node inner = stand_in(index_const(size));
  become(at, outer.stand_in * index_const(size) + inner, exact ? Node() : extent);
  axes_[at].extent = index_const(size);
  axes_[at].stand_in = inner;
  axes_[at].leading = false;
  // On a GPU the inner half is a block that one thread works through.
  if (axes_[at].kind == RangeKind::Global && target_->groups) axes_[at].kind = RangeKind::Loop;
  insert(to, outer);
  std::size_t stays = to <= at ? at + 1 : at;
  for (std::size_t i : {std::max(to, stays), std::min(to, stays)}) drop_if_single(i);
}

void OptionState::pad(std::size_t at, std::int64_t multiple) {
  Node extent = axes_[at].extent;
  if (extent.is_const() && extent.const_int() % multiple == 0) return;
  Node padded = ceil_div(extent, multiple) * index_const(multiple), wider = stand_in(padded);
  become(at, wider, extent);
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
void OptionState::divide_among_threads(std::size_t loop, bool in_parts) {
  const std::int64_t size = size_arg(loop, false);
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

void OptionState::stage(int axis) {
  if (opt_->arg.empty()) refuse("the number of a value is needed");
  std::vector<Node> values = stage_values(kernel_);
  if (opt_->arg[0] < 0 || static_cast<std::size_t>(opt_->arg[0]) >= values.size())
    refuse(fmt::format("there is no value {}: the kernel has {}", opt_->arg[0], values.size()));
  std::int64_t layout = opt_->arg.size() > 1 ? opt_->arg[1] : 0;
  if (layout < 0 || layout > 2)
    refuse(fmt::format("layout {} does not exist: 0 is the consumer's order, 1 the source's, 2 swizzled rows",
                       layout));
  if (layout == 2 && (shared_unit_ == nullptr || shared_unit_->reads == UnitReads::Words || target_->vectors))
    refuse("swizzled rows are for a matrix unit that reads matrices or panels");
  if (axis != kBeforeLoops)
    need_kind(position(axis), {RangeKind::Global, RangeKind::Loop, RangeKind::Reduce, RangeKind::Thread},
              "a loop");
  Node value = values[static_cast<std::size_t>(opt_->arg[0])];
  for (Node n : toposort(value))
    if (n.is(Op::Define)) refuse("the value comes from memory of the kernel's own");
  for (const Origin& origin : origins_)
    for (Node n : toposort(origin.range.arg(0)))
      if (n == value) refuse("a value that decides how far a range goes stays where it is");
  NodeMap<char> written;
  for (Node n : toposort(kernel_))
    if (n.is(Op::Store)) written[base_memory(n.arg(0))] = 1;
  for (Node n : toposort(value))
    if (n.is(Op::Load) && written.contains(base_memory(n.arg(0))))
      refuse("what the kernel also writes is read where it is written");
  const int serial = axis == kBeforeLoops ? kBeforeLoops : serials_[static_cast<std::size_t>(axis)];
  stages_.push_back({value, serial, static_cast<PanelOrder>(layout)});
}

void OptionState::pipeline(std::size_t at) {
  need_kind(at, {RangeKind::Global, RangeKind::Loop, RangeKind::Reduce}, "a loop");
  if (opt_->arg.empty() || opt_->arg[0] < 1) refuse("the depth must be at least 1");
  const bool fills = std::any_of(stages_.begin(), stages_.end(), [&](const StageRequest& request) {
    return request.axis_serial == serials_[at];
  });
  if (target_->groups && !fills) refuse("no panel is filled at this loop");
  constexpr std::int64_t kMostSlots = 16;
  if (target_->groups && opt_->arg[0] > kMostSlots)
    refuse(fmt::format("panels hold at most {} steps of a loop", kMostSlots));
  pipelines_.push_back({serials_[at], opt_->arg[0]});
}

std::int64_t OptionState::copies() const {
  std::int64_t most = 1;
  for (const Together& set : *together_) {
    std::int64_t copies = 1;
    for (std::size_t i = 0; i + fragment_axes_ < axes_.size() && copies <= kMostCopies; ++i) {
      const Axis& axis = axes_[i];
      if (axis.kind != RangeKind::Upcast && axis.kind != RangeKind::Unroll) continue;
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
      if (axis.kind != RangeKind::Upcast && axis.kind != RangeKind::Unroll) continue;
      if (std::find(set.origins.begin(), set.origins.end(), axis.origin) == set.origins.end()) continue;
      const auto extent = static_cast<double>(std::max<std::int64_t>(axis.extent.hi(), 1));
      copies *= extent;
      longest = std::max(longest, extent);
    }
    length += set.instructions * copies / std::min(lanes, longest);
  }
  return length;
}

void OptionState::check_limits() const {
  auto in_group = [](const Axis& a) { return a.kind == RangeKind::Local || a.kind == RangeKind::Group; };
  bool meets = !stages_.empty() || std::any_of(axes_.begin(), axes_.end(),
                                               [](const Axis& a) { return a.kind == RangeKind::Group; });
  for (const Axis& ragged : axes_)
    for (Node r : ranges_of(ragged.extent))
      for (const Axis& a : axes_)
        if (meets && in_group(a) && origins_[static_cast<std::size_t>(a.origin)].range == r)
          refuse("the threads of a group would meet at barriers a different number of times");
  for (std::size_t i = 0; i < axes_.size(); ++i)
    for (Node r : ranges_of(origins_[static_cast<std::size_t>(axes_[i].origin)].range.arg(0)))
      for (std::size_t j = i + 1; j < axes_.size(); ++j)
        if (origins_[static_cast<std::size_t>(axes_[j].origin)].range == r)
          refuse(fmt::format("the extent of axis {} depends on axis {}, which would stand inside it", i, j));
  if (!stages_.empty() && std::any_of(axes_.begin(), axes_.end(), in_group)) {
    bool reduces = false;
    for (const Axis& a : axes_) {
      reduces |= a.kind == RangeKind::Reduce;
      if (reduces && a.kind == RangeKind::Global)
        refuse("a group would fill its panels in a reduce that stands outside the outputs");
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
          refuse("a reduce that carries a tuple takes its steps one after the other");
        outer = t.coefficient;
      }
  }
  std::int64_t group = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (in_group(axes_[i]) && threads_of(i) == i) group *= std::max<std::int64_t>(axes_[i].extent.hi(), 1);
  if (copies() > kMostCopies) refuse(fmt::format("the body would be copied more than {} times", kMostCopies));
  if (group > target_->max_group)
    refuse(fmt::format("the group would have {} threads, more than the {} of target {}", group,
                       target_->max_group, target_->name));
}

// The ranges within a fragment stand last, in the order in which fragments lie in memory: rows of x, words,
// columns of y. Without the instruction they are ordinary loops.
void OptionState::fragments(const UnitKernel& unit) {
  const bool joined = unit.use == UnitUse::Instruction;
  if (joined && unit.unit->threads > 1) return shares(unit);
  const RangeKind output = joined ? RangeKind::Upcast : RangeKind::Loop,
                  reduce = joined ? RangeKind::Unroll : RangeKind::Reduce;
  auto split = [&](Node range, std::int64_t size, RangeKind kind) {
    split_low(static_cast<std::size_t>(loop_position(range)), size, kind, axes_.size());
  };
  split(unit.m, unit.unit->m, output);
  split(unit.k, unit.unit->k, reduce);
  split(unit.n, unit.unit->n, output);
  if (!joined) return;
  fragment_axes_ = 3;
  fragments_held_ = unit.unit->most_lanes;
  fragment_columns_ = axes_.back().origin;
}

// A fragment that a warp shares: 8 of its rows and 4 pairs of its columns are threads, next to each other in
// the warp; the rest is in registers, and stands last: words of a step, halves of the rows, columns of a
// pair. One that four warps share has 16 rows for each of them, and eights of columns in registers.
void OptionState::shares(const UnitKernel& unit) {
  if (!target_->groups) refuse(fmt::format("target {} has no groups of threads", target_->name));
  for (const auto& [range, size] :
       {std::pair(unit.m, unit.unit->m), std::pair(unit.n, unit.unit->n), std::pair(unit.k, unit.unit->k)})
    if (!range.arg(0).is_const() || range.arg(0).const_int() < size)
      refuse(fmt::format("a range has {} steps where a fragment has {}", range.arg(0).hi(), size));
  auto split = [&](Node range, std::int64_t size, RangeKind kind) {
    const bool thread = kind == RangeKind::Local;
    split_low(static_cast<std::size_t>(loop_position(range)), size, kind,
              thread ? after_launch() : axes_.size());
  };
  split(unit.k, unit.unit->k, RangeKind::Unroll);
  split(unit.m, 8, RangeKind::Local);
  split(unit.m, 2, RangeKind::Upcast);
  const int rows = axes_.back().origin;
  const bool warps = unit.unit->reads == UnitReads::Panels;
  if (warps)
    split_low(static_cast<std::size_t>(loop_position(unit.m)), unit.unit->m / 16, RangeKind::Local,
              after_launch() - 1);
  split(unit.n, 2, RangeKind::Upcast);
  split(unit.n, 4, RangeKind::Local);
  if (warps) split(unit.n, unit.unit->n / 8, RangeKind::Upcast);
  lane_axes_ = warps ? 3 : 2;
  fragment_axes_ = warps ? 4 : 3;
  shared_unit_ = unit.unit;
  fragments_held_ = unit.unit->most_lanes;
  fragment_columns_ = axes_.back().origin;
  check_internal(rows != fragment_columns_, "TC", "rows and columns of a fragment are one range");
}

FragmentRanges OptionState::fragment_ranges() const {
  FragmentRanges at;
  const int last = static_cast<int>(axes_.size() - fragment_axes_),
            threads = static_cast<int>(after_launch());
  at.k = last, at.high = last + 1, at.low = last + 2;
  if (fragment_axes_ > 3) at.columns = last + 3;
  if (lane_axes_ > 2) at.warp = threads;
  at.group = threads + static_cast<int>(lane_axes_) - 2;
  at.pair = at.group + 1;
  return at;
}

// The sums of all copies and what feeds them are in registers of the unit at once; a unit that reads panels
// has only the sums there.
void OptionState::check_fragments() const {
  if (fragment_axes_ == 0) return;
  std::int64_t rows = 1, columns = 1, steps = 1;
  for (std::size_t i = 0; i + fragment_axes_ < axes_.size(); ++i) {
    const std::int64_t copies = std::max<std::int64_t>(axes_[i].extent.hi(), 1);
    if (axes_[i].kind == RangeKind::Unroll) steps *= copies;
    if (axes_[i].kind == RangeKind::Upcast) (axes_[i].origin == fragment_columns_ ? columns : rows) *= copies;
  }
  const bool from_panels = shared_unit_ != nullptr && shared_unit_->reads == UnitReads::Panels;
  const std::int64_t held = rows * columns + (from_panels ? 0 : (rows + columns) * steps);
  if (held > fragments_held_)
    refuse(fmt::format("{} fragments at once are more than the {} the unit holds", held, fragments_held_));
}

void OptionState::apply(const Opt& opt) {
  opt_ = &opt;
  using K = RangeKind;
  switch (opt.op) {
    case OptOp::TC: {
      if (started_) refuse("a matrix unit is chosen before all other options");
      UnitKernel unit = use_matrix_unit(kernel_, opt, *target_);
      *this = OptionState(unit.kernel, *target_);
      opt_ = &opt;
      if (unit.m) fragments(unit);
      break;
    }
    case OptOp::JOIN: {
      if (started_) refuse("ranges are joined before all other options");
      if (opt.arg.empty()) refuse("the other position is needed");
      const std::size_t outer = position(opt.axis), inner = position(static_cast<int>(opt.arg[0]));
      Node joined = join_ranges(kernel_, origins_[outer].range, origins_[inner].range, opt);
      *this = OptionState(joined, *target_);
      return;
    }
    case OptOp::UPCAST: {
      std::size_t at = position(opt.axis);
      need_kind(at, {K::Global, K::Local, K::Loop},
                "an output range that runs one after the other (UNROLL is for reduces)");
      split_low(at, size_arg(at, true), K::Upcast, axes_.size() - fragment_axes_);
      break;
    }
    case OptOp::UNROLL: {
      std::size_t at = reduce_position(opt.axis);
      split_low(at, size_arg(at, true), K::Unroll, axes_.size() - fragment_axes_);
      break;
    }
    case OptOp::LOCAL: {
      std::size_t at = position(opt.axis);
      if (!target_->groups) refuse(fmt::format("target {} has no groups of threads", target_->name));
      if (no_locals_) refuse("NOLOCALS came before");
      Node range = origins_[static_cast<std::size_t>(axes_[at].origin)].range;
      if (axes_[at].kind == K::Loop && range_kind(range) == K::Loop) {
        if (has_panels_) refuse("each row of this kernel is worked through by one thread");
        divide_among_threads(at, false);
        break;
      }
      need_kind(at, {K::Global}, "a global range");
      split_low(at, size_arg(at, false), K::Local, after_launch());
      break;
    }
    case OptOp::THREAD: {
      std::size_t at = position(opt.axis);
      if (!target_->threads) refuse(fmt::format("target {} has no thread pool", target_->name));
      need_kind(at, {K::Global}, "a global range");
      split_high(at, size_arg(at, false), K::Thread, 0);
      break;
    }
    case OptOp::GROUP:
    case OptOp::GROUPTOP: {
      if (!target_->groups) refuse(fmt::format("target {} has no groups of threads", target_->name));
      if (no_locals_) refuse("NOLOCALS came before");
      if (has_panels_) refuse("each row of this kernel is worked through by one thread");
      divide_among_threads(reduce_position(opt.axis), opt.op == OptOp::GROUPTOP);
      break;
    }
    case OptOp::PADTO: {
      std::size_t at = position(opt.axis);
      need_kind(at, {K::Global, K::Loop, K::Reduce}, "a range that is not yet spread or unrolled");
      pad(at, size_arg(at, false));
      break;
    }
    case OptOp::SWAP: {
      if (opt.arg.empty()) refuse("the other position is needed");
      std::size_t a = position(opt.axis), b = position(static_cast<int>(opt.arg[0]));
      for (std::size_t at : {a, b}) need_kind(at, {K::Global, K::Loop, K::Reduce}, "a loop");
      std::swap(axes_[a], axes_[b]);
      std::swap(serials_[a], serials_[b]);
      break;
    }
    case OptOp::NOLOCALS:
      for (const Axis& axis : axes_)
        if (axis.kind == K::Local || axis.kind == K::Group) refuse("the kernel already has local ranges");
      no_locals_ = true;
      break;
    case OptOp::TILE: {
      std::size_t at = position(opt.axis);
      need_kind(at, {K::Global, K::Loop, K::Reduce}, "a loop");
      std::int64_t size = size_arg(at, false);
      std::size_t to = opt.arg.size() > 1 ? position(static_cast<int>(opt.arg[1])) : at;
      tile(at, size, to);
      break;
    }
    case OptOp::STAGE: stage(opt.axis); break;
    case OptOp::PIPELINE: pipeline(position(opt.axis)); break;
  }
  started_ = true;
  check_limits();
  check_fragments();
}

std::vector<Node> stage_values(Node kernel) {
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
