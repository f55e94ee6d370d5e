// Applying an option list: the options change an OptionState, then the kernel is rewritten once over the
// final ranges.
//
//   kernel   End(Store(out, m, Reduce(Add, Load(x, m*7 + k), k)), m)       UNROLL(0, 4) on k of extent 7
//   becomes  k = k0*4 + k1, k0 < 2, k1 < 4, gate = k < 7
//            End(Store(out, m, Reduce(Add, Load(x, m*7 + k, gate), k0, k1)), m)
//
// Where a split is not exact, an index beyond the end must do nothing. Stores get the gate. A reduce's
// element becomes the neutral value, which for sums of products of gated loads it already is. Loads either
// get the gate, or read the last element again (whose value is dropped): the latter keeps masks out of inner
// loops, and is used for output ranges along which nothing is contiguous, so that no vector load is broken by
// it.
#include <algorithm>
#include <vector>

#include "base/small_vector.h"
#include "codegen/codegen.h"
#include "codegen/group_reduce.h"
#include "codegen/matrix_unit.h"
#include "codegen/option_state.h"
#include "codegen/peel_steps.h"
#include "codegen/place_accumulators.h"
#include "codegen/place_folds.h"
#include "codegen/prefetch_tiles.h"
#include "codegen/private_panels.h"
#include "codegen/skip_steps.h"
#include "codegen/skip_tiles.h"
#include "codegen/stage.h"
#include "codegen/step_fault.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

class KernelRewriter {
 public:
  explicit KernelRewriter(const OptionState& state) : state_(state) {
    const std::vector<Origin>& origins = state.origins();
    for (std::size_t i = 0; i < origins.size(); ++i) origin_of_.try_emplace(origins[i].range, i);
    parts_.resize(origins.size());
    clamped_.resize(origins.size());
    // Panels of a group hold zeros beyond the end: so their source moves evenly with its ranges.
    const bool shared = state.target().groups && !state.stages().empty();
    for (std::size_t i = 0; i < origins.size(); ++i)
      if (!origins[i].gates.empty()) clamped_[i] = !shared && may_clamp(i);
    for (Node n : toposort(state.kernel()))
      if (n.is(Op::Store)) written_.try_emplace(base_memory(n.arg(0)), 1);
  }

  Node run() {
    for (Node n : toposort(state_.kernel())) done_.try_emplace(n, rewrite(n));
    return *done_.find(state_.kernel());
  }
  Node image(Node n) const {
    const Node* to = done_.find(n);
    return to != nullptr ? *to : Node();
  }

 private:
  const Origin& origin(Node range) const { return state_.origins()[*origin_of_.find(range)]; }

  // Output ranges that no load or store runs along with stride 1 may read the last element again instead of a
  // gate.
  bool may_clamp(std::size_t which) const {
    const Origin& o = state_.origins()[which];
    if (range_kind(o.range) == RangeKind::Reduce || !o.range.arg(0).is_const() ||
        o.range.arg(0).const_int() == 0)
      return false;
    for (Node n : toposort(state_.kernel())) {
      if (n.is(Op::Fold)) return false;
      if (!n.is(Op::Load) && !n.is(Op::Store)) continue;
      if (!depends_on(n.arg(1), o.range)) continue;
      bool strided = false;
      for (const Term& t : linear(n.arg(1)).terms)
        if (t.node == o.range) strided = t.coefficient != 1 && t.coefficient != -1;
      if (!strided) return false;
    }
    return true;
  }

  // Rewrites a small expression that is not part of the kernel: an extent, an index over stand-ins, a gate.
  Node rewritten(Node n) {
    if (const Node* to = done_.find(n)) return *to;
    for (Node part : toposort(n)) {
      if (done_.contains(part)) continue;
      Nodes args;
      for (Node a : part.args()) args.push_back(*done_.find(a));
      done_.try_emplace(part, part.arg_count() == 0 ? part : rebuild(part, args));
    }
    return *done_.find(n);
  }

  Node rewrite(Node n) {
    if (n.is(Op::Range)) return index_of(n);
    if (n.arg_count() == 0) return n;
    Nodes args;
    for (Node a : n.args()) args.push_back(*done_.find(a));
    switch (n.op()) {
      case Op::Load: {
        Node gate = n.arg_count() > 2 ? args[2] : Node();
        // What the kernel also writes is read only where it is written, so there a gate stands instead of the
        // last element.
        const bool own = written_.contains(base_memory(n.arg(0)));
        for (Node r : ranges_of(n))
          if (own || !clamped_[*origin_of_.find(r)]) gate = both(gate, gate_of(r));
        return load(args[0], own ? unclamped(n.arg(1), args[1]) : args[1], gate);
      }
      case Op::Store: {
        Node gate = n.arg_count() > 3 ? args[3] : Node();
        for (Node r : ranges_of(n)) gate = both(gate, gate_of(r));
        // The index must stay contiguous, so it is never the clamped one: the gate keeps it in bounds.
        return store(args[0], unclamped(n.arg(1), args[1]), args[2], gate);
      }
      case Op::Reduce: {
        Node element = args[0];
        Op op = reduce_op(n);
        for (Node r : closed_ranges(n)) {
          Node gate = gate_of(r);
          if (!gate || (op == Op::Add && zero_beyond(n.arg(0), r))) continue;
          DType dtype = element.dtype();
          element = where(gate, element, element_const(dtype, unit_of(op, dtype)));
        }
        return reduce_ranges(op, element, final_ranges(closed_ranges(n)));
      }
      case Op::Fold: return fold(n, args);
      case Op::Check:  // a step beyond the end reads what is no index
        for (Node r : ranges_of(n)) args[2] = both(args[2], gate_of(r));
        return rebuild(n, args);
      case Op::End: return end(args[0], final_ranges(closed_ranges(n)));
      default: return rebuild(n, args);
    }
  }

  Node fold(Node n, Nodes& args) {
    auto count = static_cast<std::size_t>(n.ints()[1]);
    for (Node r : closed_ranges(n)) {
      Node gate = gate_of(r);
      if (!gate) continue;
      for (std::size_t i = 0; i < count; ++i) {
        AttrData d{"", {n.ints()[0], static_cast<std::int64_t>(i), 0}};
        Node carry = intern(Op::Carry, args[i].dtype(), {}, Attr::of(d));
        args[count + i] = where(gate, args[count + i], carry);
      }
    }
    args.resize(n.arg_count() - closed_ranges(n).size());
    for (Node r : final_ranges(closed_ranges(n))) args.push_back(r);
    return intern(Op::Fold, n.dtype(), args, n.attr());
  }

  // The index of a range of the kernel over its final ranges, which are made here: what their extents depend
  // on has been rewritten by now.
  Node index_of(Node old) {
    std::size_t which = *origin_of_.find(old);
    const std::vector<Axis>& axes = state_.axes();
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (static_cast<std::size_t>(axes[i].origin) != which) continue;
      if (axes[i].extent.is_const_int(1)) {
        done_.try_emplace(axes[i].stand_in, index_const(0));
        continue;
      }
      const auto id = static_cast<std::int64_t>(state_.threads_of(i));
      Node made = range(rewritten(axes[i].extent), id, axes[i].kind);
      done_.try_emplace(axes[i].stand_in, made);
      parts_[which].push_back(made);
    }
    Node index = rewritten(origin(old).index);
    if (!clamped_[which]) return index;
    Node last = index_const(old.arg(0).const_int() - 1), bounded = min(index, last);
    unclamped_.try_emplace(bounded, index);
    return bounded;
  }
  Node unclamped(Node old, Node index) const {
    bool any = false;
    for (Node r : ranges_of(old)) any |= clamped_[*origin_of_.find(r)];
    return any ? substitute(index, unclamped_) : index;
  }

  Node gate_of(Node old) {
    Node gate;
    for (Node g : origin(old).gates) {
      Node now = rewritten(g);
      if (now.lo() != 1) gate = both(gate, now);
    }
    return gate;
  }
  static Node both(Node a, Node b) { return !a ? b : !b || a == b ? a : logical_and(a, b); }

  // Whether the element of a sum is 0 where the gate of `r` is false because loads give 0 there.
  static bool zero_beyond(Node element, Node r) {
    switch (element.op()) {
      case Op::Load: return depends_on(element, r);
      case Op::Cast:
      case Op::Neg: return zero_beyond(element.arg(0), r);
      case Op::Pack:
        return std::all_of(element.args().begin(), element.args().end(),
                           [&](Node part) { return zero_beyond(part, r); });
      case Op::Dot: {
        const bool x = zero_beyond(element.arg(0), r), y = zero_beyond(element.arg(1), r);
        return element.dtype().is_float() ? x && y : x || y;
      }
      case Op::Sub:
      case Op::Mul:
      case Op::Add: return zero_beyond(element.arg(0), r) && zero_beyond(element.arg(1), r);
      default: return false;
    }
  }

  std::vector<Node> final_ranges(std::span<const Node> old) const {
    std::vector<Node> out;
    for (Node r : old)
      for (Node part : parts_[*origin_of_.find(r)]) out.push_back(part);
    std::sort(out.begin(), out.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
    return out;
  }

  const OptionState& state_;
  NodeMap<std::size_t> origin_of_;
  std::vector<Nodes> parts_;  // final ranges of each origin
  std::vector<char> clamped_;
  NodeMap<Node> unclamped_;
  NodeMap<char> written_;
  NodeMap<Node> done_;
};

bool has_single_ranges(const OptionState& state) {
  for (const Axis& axis : state.axes())
    if (axis.extent.is_const_int(1)) return true;
  return false;
}

// Whether the kernel as scheduled works on rows: several nests, one after the other, inside the same loops.
bool has_rows(Node kernel) {
  std::vector<Node> order = toposort(kernel);
  return std::any_of(order.begin(), order.end(), [](Node n) {
    return n.is(Op::Define) || (n.is(Op::Range) && range_kind(n) == RangeKind::Loop);
  });
}

}  // namespace

Node apply_options(Node kernel, std::span<const Opt> opts, const Target& target) {
  OptionState state(kernel, target);
  for (const Opt& opt : opts) state.apply(opt);
  Node result = state.kernel();
  auto position_of = [&](int serial) {
    int position = -1;
    for (std::size_t i = 0; i < state.axes().size(); ++i)
      if (state.serial_of(i) == serial) position = static_cast<int>(i);
    return position;
  };
  if (!opts.empty() || has_single_ranges(state)) {
    KernelRewriter rewriter(state);
    result = after_step("split_ranges", rewriter.run());
    // Threads of a group wait for each other inside these loops, so there all of them take every step.
    NodeMap<Node> skipped = target.groups ? NodeMap<Node>() : skipped_steps(result);
    if (!target.groups)
      for (const auto& [tile, shorter] : skipped_tiles(result)) skipped.try_emplace(tile, shorter);
    std::vector<Staging> stages;
    for (const StageRequest& request : state.stages())
      stages.push_back({rewriter.image(request.value), position_of(request.axis_serial), request.order});
    result = after_step("stage_values", stage_values(result, stages, target));
    if (!skipped.empty()) result = after_step("skip_steps", substitute(result, skipped));
  }
  result = after_step("place_folds", place_folds(result));
  result = after_step("private_panels", private_panels(result, target));
  // The nests of a row share their outer loops: there reduces run innermost, whatever the order says.
  if (!has_rows(kernel)) result = after_step("place_accumulators", place_accumulators(result, target));
  std::vector<Pipelined> pipelined;
  for (const PipelineRequest& request : state.pipelines())
    pipelined.push_back({position_of(request.axis_serial), request.depth});
  result = after_step("prefetch_tiles", prefetch_tiles(result, pipelined));
  result = after_step("split_offsets", split_offsets(result));
  result = after_step("join_fragments", join_fragments(result, target, state.joins_fragments()));
  if (const MatrixUnit* unit = state.shared_unit())
    result = after_step("join_shares", join_shares(result, *unit));
  if (target.vectors && !target.groups) result = after_step("peel_last_steps", peel_last_steps(result));
  // Reduces over groups become shared memory and barriers here, before expansion, so that the copies of a
  // register tile share one barrier.
  result = after_step("group_reduce", group_reduce(result));
  return after_step("simplify", simplify(result));
}

}  // namespace lathe
