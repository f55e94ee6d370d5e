#include "codegen/lower/lower_checks.h"

#include <algorithm>
#include <vector>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

class CheckLowering {
 public:
  CheckLowering(Node kernel, Lowering& lowering) : kernel_(kernel), lowering_(lowering) {}

  Node run() {
    const std::vector<Node> order = toposort(kernel_);
    std::int64_t slots = 0;
    bool any = false;
    for (Node n : order) {
      if (n.is(Op::Param)) slots = std::max(slots, param_slot(n) + 1);
      any |= n.is(Op::Check);
    }
    if (!any) return kernel_;
    cell_ = param(dtypes::Int64, slots, 1);
    for (Node n : order) {
      const bool over_check =
          std::any_of(n.args().begin(), n.args().end(), [&](Node a) { return leads_to_check_.contains(a); });
      if (n.is(Op::Check) || (over_check && n.dtype() != dtypes::Void)) leads_to_check_.try_emplace(n, 1);
      if (n.is(Op::End)) around(n);
    }
    for (Node n : order) done_.try_emplace(n, lower(n));
    return *done_.find(kernel_);
  }

 private:
  Node lower(Node n) {
    if (n.arg_count() == 0) return n;
    Nodes args;
    for (Node a : n.args()) args.push_back(*done_.find(a));
    if (n.is(Op::Check)) return checked(n, args[0], args[1], args[2]);
    if (n.is(Op::Store)) {
      if (Nodes reports = reports_below(n); !reports.empty()) args[0] = after(args[0], reports);
    }
    return rebuild(n, args);
  }

  static Node constant_like(Node x, std::int64_t v) {
    return splat(int_const(x.dtype().element(), v), x.dtype().lanes);
  }

  Node checked(Node n, Node index, Node size, Node when) {
    Node inside = less(index, size);
    if (index.lo() < 0) inside = logical_and(logical_not(less(index, constant_like(index, 0))), inside);
    Node bad = logical_and(when, logical_not(inside));
    Node wide = cast(index, dtypes::Int64);
    Node low = apply(Op::And, wide, constant_like(wide, kFaultIndexMask));
    Node fault = apply(Op::Or, low, constant_like(low, fault_number(n) << kFaultIndexBits));
    Node zero = index_const(0);
    if (fault.dtype().lanes == 1) {
      reports_.try_emplace(n, store(cell_, zero, fault, bad));
    } else {  // of several lanes that are outside, one is told
      Node worst = hreduce(Op::Max, where(bad, fault, constant_like(fault, 0)));
      reports_.try_emplace(n, store(cell_, zero, worst, apply(Op::Ne, worst, constant_like(worst, 0))));
    }
    return where(inside, index, constant_like(index, -1));
  }

  // Checks are numbered from 1, those of one op and size together.
  std::int64_t fault_number(Node n) {
    Node size = n.arg(1).is(Op::Splat) ? n.arg(1).arg(0) : n.arg(1);
    ProgramCheck wanted{n.text(), size.is_const() ? size.const_int() : -1};
    auto& all = lowering_.checks;
    auto found = std::find(all.begin(), all.end(), wanted);
    if (found == all.end()) found = all.insert(all.end(), wanted);
    return found - all.begin() + 1;
  }

  // The loops around a store may be as long as a checked index says.
  void around(Node end_node) {
    Node inner = end_node.arg(0);
    while (inner.is(Op::End)) inner = inner.arg(0);
    for (Node r : closed_ranges(end_node))
      if (leads_to_check_.contains(r)) loops_[inner].push_back(r);
  }

  // The reports of checks that a store's operands lead to and that hang on no store yet. Effects before it
  // are not entered: they have their own.
  Nodes reports_below(Node store_node) {
    Nodes found;
    std::vector<Node> open(store_node.args().begin(), store_node.args().end());
    if (const Nodes* around = loops_.find(store_node))
      open.insert(open.end(), around->begin(), around->end());
    while (!open.empty()) {
      Node n = open.back();
      open.pop_back();
      if (!leads_to_check_.contains(n) || !seen_.try_emplace(n, 1).second) continue;
      if (n.is(Op::Check)) found.push_back(*reports_.find(n));
      open.insert(open.end(), n.args().begin(), n.args().end());
    }
    return found;
  }

  Node kernel_, cell_;
  Lowering& lowering_;
  NodeMap<char> leads_to_check_, seen_;
  NodeMap<Node> done_, reports_;
  NodeMap<Nodes> loops_;
};

}  // namespace

Node lower_checks(Node kernel, Lowering& lowering) { return CheckLowering(kernel, lowering).run(); }

}  // namespace lathe
