// The part of OptionState that takes options: one function per option checks it against the kernel and the
// target, and changes the axes.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/planted.h"
#include "codegen/options/join_ranges.h"
#include "codegen/options/matrix_unit.h"
#include "codegen/options/option_state.h"
#include "codegen/options/paired_unit.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {

bool OptionState::stage() {
  const int axis = opt_->axis;
  if (opt_->arg.empty()) return refuse("the number of a value is needed");
  std::vector<Node> values = stageable_values(kernel_);
  if (opt_->arg[0] < 0 || static_cast<std::size_t>(opt_->arg[0]) >= values.size())
    return refuse(fmt::format("there is no value {}: the kernel has {}", opt_->arg[0], values.size()));
  std::int64_t layout = opt_->arg.size() > 1 ? opt_->arg[1] : 0;
  if (layout < 0 || layout > 2)
    return refuse(fmt::format(
        "layout {} does not exist: 0 is the consumer's order, 1 the source's, 2 swizzled rows", layout));
  if (layout == 2 && (shared_unit_ == nullptr || shared_unit_->reads == UnitReads::Words || target_->vectors))
    return refuse("swizzled rows are for a matrix unit that reads matrices or panels");
  if (axis != kBeforeLoops) {
    const std::optional<std::size_t> at = position(axis);
    if (!at ||
        !need_kind(*at, {RangeKind::Global, RangeKind::Loop, RangeKind::Reduce, RangeKind::Thread}, "a loop"))
      return false;
  }
  Node value = values[static_cast<std::size_t>(opt_->arg[0])];
  for (Node n : toposort(value))
    if (n.is(Op::Define)) return refuse("the value comes from memory of the kernel's own");
  for (const Origin& origin : origins_)
    for (Node n : toposort(origin.range.arg(0)))
      if (n == value) return refuse("a value that decides how far a range goes stays where it is");
  NodeMap<char> written;
  for (Node n : toposort(kernel_))
    if (n.is(Op::Store)) written[base_memory(n.arg(0))] = 1;
  for (Node n : toposort(value))
    if (n.is(Op::Load) && written.contains(base_memory(n.arg(0))))
      return refuse("what the kernel also writes is read where it is written");
  const int serial = axis == kBeforeLoops ? kBeforeLoops : serials_[static_cast<std::size_t>(axis)];
  stages_.push_back({value, serial, static_cast<PanelOrder>(layout)});
  return true;
}

bool OptionState::pipeline() {
  constexpr std::int64_t kMostSlots = 16;
  const std::optional<std::size_t> at = position(opt_->axis);
  if (!at || !need_kind(*at, {RangeKind::Global, RangeKind::Loop, RangeKind::Reduce}, "a loop")) return false;
  if (opt_->arg.empty() || opt_->arg[0] < 1) return refuse("the depth must be at least 1");
  const bool fills = std::any_of(stages_.begin(), stages_.end(), [&](const StageRequest& request) {
    return request.axis_serial == serials_[*at];
  });
  if (target_->groups && !fills) return refuse("no panel is filled at this loop");
  if (target_->groups && opt_->arg[0] > kMostSlots)
    return refuse(fmt::format("panels hold at most {} steps of a loop", kMostSlots));
  const std::int64_t how = opt_->arg.size() > 1 ? opt_->arg[1] : 0;
  if (how < 0 || how > 2)
    return refuse(
        "panels are filled by threads (0), by bulk copies (1), or by those of warps of their own (2)");
  if (how > 0 && !target_->bulk_copies)
    return refuse(fmt::format("target {} has no bulk copies", target_->name));
  if (how == 2 && (shared_unit_ == nullptr || shared_unit_->reads != UnitReads::Panels))
    return refuse("warps of their own are for a matrix unit that reads panels");
  pipelines_.push_back({serials_[*at], opt_->arg[0], static_cast<Filling>(how)});
  return true;
}

bool OptionState::choose_unit() {
  if (started_) return refuse("a matrix unit is chosen before all other options");
  const bool paired = target_->groups && has_paired_products(kernel_);
  const OrRefusal<UnitKernel> unit = paired ? use_paired_unit(kernel_, *opt_, *target_, *rules_)
                                            : use_matrix_unit(kernel_, *opt_, *target_, *rules_);
  if (!unit) {
    refusal_ = unit.refusal();
    return false;
  }
  const Opt* opt = opt_;
  *this = OptionState(unit->kernel, *target_, *rules_);
  opt_ = opt;
  if (paired) return shares_in_row(*unit);
  return !unit->m || fragments(*unit);
}

bool OptionState::join() {
  if (started_) return refuse("ranges are joined before all other options");
  if (opt_->arg.empty()) return refuse("the other position is needed");
  const std::optional<std::size_t> outer = position(opt_->axis),
                                   inner = outer ? position(opt_->arg[0]) : std::nullopt;
  if (!inner) return false;
  const OrRefusal<Node> joined =
      join_ranges(kernel_, origins_[*outer].range, origins_[*inner].range, *opt_, *rules_);
  if (!joined) {
    refusal_ = joined.refusal();
    return false;
  }
  const Opt* opt = opt_;
  *this = OptionState(*joined, *target_, *rules_);
  opt_ = opt;
  return true;
}

bool OptionState::upcast() {
  const std::optional<std::size_t> at = position(opt_->axis);
  if (!at || !need_kind(*at, {RangeKind::Global, RangeKind::Local, RangeKind::Loop},
                        "an output range that runs one after the other (UNROLL is for reduces)"))
    return false;
  const std::optional<std::int64_t> size = size_arg(*at, true);
  if (size) split_low(*at, *size, RangeKind::Upcast, axes_.size() - fragment_axes_);
  return size.has_value();
}

bool OptionState::unroll() {
  const std::optional<std::size_t> at = reduce_position(opt_->axis);
  const std::optional<std::int64_t> size = at ? size_arg(*at, true) : std::nullopt;
  if (size) split_low(*at, *size, RangeKind::Unroll, axes_.size() - fragment_axes_);
  return size.has_value();
}

bool OptionState::need_group() {
  if (!target_->groups) return refuse(fmt::format("target {} has no groups of threads", target_->name));
  return !no_locals_ || refuse("NOLOCALS came before");
}

bool OptionState::need_shared_rows() {
  return !has_panels_ || refuse("each row of this kernel is worked through by one thread");
}

bool OptionState::local() {
  const std::optional<std::size_t> at = position(opt_->axis);
  if (!at || !need_group()) return false;
  Node range = origins_[static_cast<std::size_t>(axes_[*at].origin)].range;
  const bool in_row = axes_[*at].kind == RangeKind::Loop && range_kind(range) == RangeKind::Loop;
  if (in_row ? !need_shared_rows() : !need_kind(*at, {RangeKind::Global}, "a global range")) return false;
  const std::optional<std::int64_t> size = size_arg(*at, false);
  if (size && in_row) divide_among_threads(*at, *size, false);
  if (size && !in_row) split_low(*at, *size, RangeKind::Local, after_launch());
  return size.has_value();
}

bool OptionState::thread() {
  const std::optional<std::size_t> at = position(opt_->axis);
  if (!at) return false;
  if (!target_->threads) return refuse(fmt::format("target {} has no thread pool", target_->name));
  if (!need_kind(*at, {RangeKind::Global}, "a global range")) return false;
  const std::optional<std::int64_t> size = size_arg(*at, false);
  if (size) split_high(*at, *size, RangeKind::Thread, 0);
  return size.has_value();
}

bool OptionState::group() {
  if (!need_group() || !need_shared_rows()) return false;
  const std::optional<std::size_t> at = reduce_position(opt_->axis);
  const std::optional<std::int64_t> size = at ? size_arg(*at, false) : std::nullopt;
  if (size) divide_among_threads(*at, *size, opt_->op == OptOp::GROUPTOP);
  return size.has_value();
}

bool OptionState::pad() {
  const std::optional<std::size_t> at = position(opt_->axis);
  if (!at || !need_kind(*at, {RangeKind::Global, RangeKind::Loop, RangeKind::Reduce},
                        "a range that is not yet spread or unrolled"))
    return false;
  const std::optional<std::int64_t> size = size_arg(*at, false);
  if (size) widen(*at, *size);
  return size.has_value();
}

bool OptionState::exchange() {
  if (opt_->arg.empty()) return refuse("the other position is needed");
  const std::optional<std::size_t> a = position(opt_->axis), b = a ? position(opt_->arg[0]) : std::nullopt;
  if (!b) return false;
  for (std::size_t at : {*a, *b})
    if (!need_kind(at, {RangeKind::Global, RangeKind::Loop, RangeKind::Reduce}, "a loop")) return false;
  std::swap(axes_[*a], axes_[*b]);
  std::swap(serials_[*a], serials_[*b]);
  if (planted(Fault::SwapExtents)) {
    Node& first = axes_[*a].extent;
    Node& second = axes_[*b].extent;
    first = second = min(first, second);
  }
  return true;
}

bool OptionState::no_locals() {
  for (const Axis& axis : axes_)
    if (in_group(axis.kind)) return refuse("the kernel already has local ranges");
  no_locals_ = true;
  return true;
}

bool OptionState::tile() {
  const std::optional<std::size_t> at = position(opt_->axis);
  if (!at || !need_kind(*at, {RangeKind::Global, RangeKind::Loop, RangeKind::Reduce}, "a loop")) return false;
  const std::optional<std::int64_t> size = size_arg(*at, false);
  if (!size) return false;
  const std::optional<std::size_t> to = opt_->arg.size() > 1 ? position(opt_->arg[1]) : at;
  if (to) split_apart(*at, *size, *to);
  return to.has_value();
}

bool OptionState::take() {
  switch (opt_->op) {
    case OptOp::TC: return choose_unit();
    case OptOp::UPCAST: return upcast();
    case OptOp::UNROLL: return unroll();
    case OptOp::LOCAL: return local();
    case OptOp::THREAD: return thread();
    case OptOp::GROUP:
    case OptOp::GROUPTOP: return group();
    case OptOp::PADTO: return pad();
    case OptOp::SWAP: return exchange();
    case OptOp::NOLOCALS: return no_locals();
    case OptOp::TILE: return tile();
    case OptOp::STAGE: return stage();
    case OptOp::PIPELINE: return pipeline();
    case OptOp::JOIN: return join();
  }
  return refuse("there is no such option");
}

bool OptionState::takes(const Opt& opt) {
  opt_ = &opt;
  if (!take()) return false;
  started_ = opt.op != OptOp::JOIN;
  return within_limits() && within_fragments();
}

void OptionState::apply(const Opt& opt) {
  if (!takes(opt)) throw refusal().error();
}

}  // namespace lathe
