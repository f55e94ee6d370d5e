#include <fmt/format.h>

#include <algorithm>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/verify.h"
#include "ir/verify_node.h"
#include "ir/walk.h"

namespace lathe {
namespace {

class KernelVerifier {
 public:
  KernelVerifier(Node kernel, KernelPhase phase) : kernel_(kernel), phase_(phase), order_(toposort(kernel)) {}

  std::vector<VerifyFault> run() {
    if (!kernel_.is(Op::Sink)) {
      fault(kernel_, fmt::format("a kernel is a Sink, not {}", info(kernel_.op()).name));
      return std::move(faults_);
    }
    constexpr Form kForms[] = {Form::Planned, Form::Kernel, Form::Kernel, Form::LoweredKernel};
    const Form form = kForms[static_cast<int>(phase_)];
    for (Node n : order_)
      if (std::string text = local_fault(n, form); !text.empty()) fault(n, text);
    if (!faults_.empty()) return std::move(faults_);  // what follows relies on well-formed nodes
    check_identities();
    check_closed();
    check_carries();
    check_memory();
    return std::move(faults_);
  }

 private:
  void fault(Node n, std::string text) { faults_.push_back({n, std::move(text)}); }

  // A number names one thing: a param slot, a define, a range, a fold.
  void check_identities() {
    struct Kind {
      Op op;
      const char* what;
    };
    for (Kind kind : {Kind{Op::Param, "param"}, Kind{Op::Define, "define"}, Kind{Op::Range, "range"},
                      Kind{Op::Fold, "fold"}}) {
      std::vector<Node> seen;
      for (Node n : order_)
        if (n.is(kind.op)) seen.push_back(n);
      std::sort(seen.begin(), seen.end(), [](Node a, Node b) {
        return a.ints()[0] != b.ints()[0] ? a.ints()[0] < b.ints()[0] : a.key() < b.key();
      });
      for (std::size_t i = 1; i < seen.size(); ++i)
        if (seen[i].ints()[0] == seen[i - 1].ints()[0])
          fault(seen[i], fmt::format("two nodes are {} {}", kind.what, seen[i].ints()[0]));
    }
  }

  void check_closed() {
    for (VerifyFault& open : open_ranges(kernel_, phase_)) faults_.push_back(std::move(open));
    // An effect that is ended over a range must not be ended over it again.
    NodeMap<std::vector<Node>> ended;
    for (Node n : order_) {
      if (!n.is(Op::End)) continue;
      std::vector<Node> all;
      if (const std::vector<Node>* below = ended.find(n.arg(0))) all = *below;
      for (Node r : closed_ranges(n)) {
        if (std::find(all.begin(), all.end(), r) != all.end() && !depends_on(n.arg(0), r))
          fault(n, fmt::format("range {} is closed twice", range_id(r)));
        all.push_back(r);
      }
      ended[n] = std::move(all);
    }
  }

  // A running value is only in a step of its fold, two partial results only in its combine.
  void check_carries() {
    for (Node fold : order_) {
      if (!fold.is(Op::Fold)) continue;
      std::int64_t id = fold.ints()[0], n = fold.ints()[1];
      auto count = static_cast<std::size_t>(n);
      for (std::size_t a = 0; a < count * (fold.ints()[2] != 0 ? 3 : 2); ++a)
        for (Node c : toposort(fold.arg(a))) {
          if (!c.is(Op::Carry) || c.ints()[0] != id) continue;
          if (a < count)
            fault(c, fmt::format("a running value of fold {} is used in its initial value", id));
          else if (c.ints()[1] >= n)
            fault(c, fmt::format("fold {} has no component {}", id, c.ints()[1]));
          else if (c.dtype() != fold.arg(static_cast<std::size_t>(c.ints()[1])).dtype())
            fault(c, fmt::format("component {} of fold {} is {}", c.ints()[1], id,
                                 fold.arg(static_cast<std::size_t>(c.ints()[1])).dtype().str()));
          else if (a < 2 * count && c.ints()[2] != 0)
            fault(c, fmt::format("a second partial result in a step of fold {}", id));
        }
    }
    NodeMap<std::vector<std::int64_t>> free;  // node -> folds whose running values it reads
    for (Node n : order_) {
      std::vector<std::int64_t> ids;
      if (n.is(Op::Carry)) ids.push_back(n.ints()[0]);
      for (Node a : n.args())
        if (const std::vector<std::int64_t>* below = free.find(a))
          ids.insert(ids.end(), below->begin(), below->end());
      if (n.is(Op::Fold)) std::erase(ids, n.ints()[0]);
      if (ids.empty()) continue;
      std::sort(ids.begin(), ids.end());
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      if (n == kernel_) fault(n, fmt::format("a running value of fold {} is read outside it", ids[0]));
      free[n] = std::move(ids);
    }
  }

  void check_memory() {
    bool vectors = std::any_of(order_.begin(), order_.end(), [](Node n) { return n.dtype().lanes > 1; });
    NodeMap<std::vector<Node>> stored;  // param -> indices written
    for (Node n : order_)
      if (n.is(Op::Store)) {
        Node base = base_memory(n.arg(0));
        if (base.is(Op::Param)) stored[base].push_back(n.arg(1));
        if (base.is(Op::Define) && define_space(base) == Space::Barrier) fault(n, "a Store to a barrier");
      }
    for (Node n : order_) {
      if (!n.is(Op::Load)) continue;
      if (n.arg(0).is(Op::Define))
        fault(n, fmt::format("define {} is read with no write before it", define_id(n.arg(0))));
      // Indices that are the same may be written differently until they are simplified.
      if (vectors || phase_ == KernelPhase::Options || !n.arg(0).is(Op::Param)) continue;
      const std::vector<Node>* at = stored.find(n.arg(0));
      if (at != nullptr && std::find(at->begin(), at->end(), n.arg(1)) == at->end())
        fault(n, fmt::format("param {} is written, and read at another index", param_slot(n.arg(0))));
    }
  }

  Node kernel_;
  KernelPhase phase_;
  std::vector<Node> order_;
  std::vector<VerifyFault> faults_;
};

}  // namespace

std::vector<VerifyFault> open_ranges(Node kernel, KernelPhase phase) {
  std::vector<VerifyFault> faults;
  for (Node effect : kernel.args())
    for (Node r : ranges_of(effect)) {
      if (phase == KernelPhase::Options && range_kind(r) == RangeKind::Group) continue;
      faults.push_back({r, fmt::format("range {} is not closed on the way to the Sink", range_id(r))});
    }
  return faults;
}

std::vector<VerifyFault> verify_kernel(Node kernel, KernelPhase phase) {
  return KernelVerifier(kernel, phase).run();
}

}  // namespace lathe
