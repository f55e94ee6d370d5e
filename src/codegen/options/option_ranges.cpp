#include "codegen/options/option_ranges.h"

#include <algorithm>
#include <vector>

#include "base/planted.h"
#include "base/small_vector.h"
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
  KernelRewriter(const OptionState& state, const RuleChanges& changes) : state_(state), changes_(changes) {
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
  // Of all parts of a range that is the sum of them.
  std::vector<RangePlace> places() const {
    std::vector<RangePlace> out;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Node* index = done_.find(state_.origins()[i].range);
      if (index == nullptr) continue;
      for (const Term& t : linear(*index).terms)
        if (std::find(parts_[i].begin(), parts_[i].end(), t.node) != parts_[i].end())
          out.push_back({t.node, static_cast<int>(i), t.coefficient});
    }
    return out;
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

  // Threads of a group work on what is beyond the end of an output as on any other, in memory of their own:
  // they meet for it.
  bool needs_gate(Node access, Node range) const {
    Node base = base_memory(access.arg(0));
    const bool own = state_.target().groups && base.is(Op::Define) && define_space(base) == Space::Register;
    return !own || depends_on(access.arg(1), range);
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
        // What the kernel also writes is read only where it is written, so there a gate is instead of the
        // last element.
        const bool own = written_.contains(base_memory(n.arg(0)));
        for (Node r : ranges_of(n))
          if ((own || !clamped_[*origin_of_.find(r)]) && needs_gate(n, r)) gate = both(gate, gate_of(r));
        return load(args[0], own ? unclamped(n.arg(1), args[1]) : args[1], gate);
      }
      case Op::Store: {
        Node gate = n.arg_count() > 3 ? args[3] : Node();
        for (Node r : ranges_of(n))
          if (needs_gate(n, r)) gate = both(gate, gate_of(r));
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
          const Element unit = planted(Fault::ReduceGateUnit) ? Element{} : unit_of(op, dtype);
          element = where(gate, element, element_const(dtype, unit));
        }
        return reduce_ranges(op, element, final_ranges(closed_ranges(n)));
      }
      case Op::Fold: return fold(n, args);
      case Op::Check:  // a step beyond the end reads what is no index
        for (Node r : ranges_of(n)) args[2] = both(args[2], gate_of(r));
        return rebuild(n, args);
      case Op::End: return end(args[0], final_ranges(closed_ranges(n)));
      // What is left of a joined range's parts: how the steps of a panel move its source is to be seen.
      case Op::FloorDiv:
      case Op::FloorMod:
        return n.dtype().is_index() ? simplify(rebuild(n, args), changes_) : rebuild(n, args);
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
  const RuleChanges& changes_;
  NodeMap<std::size_t> origin_of_;
  std::vector<Nodes> parts_;  // final ranges of each origin
  std::vector<char> clamped_;
  NodeMap<Node> unclamped_;
  NodeMap<char> written_;
  NodeMap<Node> done_;
};

}  // namespace

OptionRanges option_ranges(const OptionState& state, const RuleChanges& changes) {
  KernelRewriter rewriter(state, changes);
  OptionRanges out;
  out.kernel = rewriter.run();
  out.places = rewriter.places();
  for (const StageRequest& request : state.stages()) out.staged.push_back(rewriter.image(request.value));
  return out;
}

}  // namespace lathe
