#include "codegen/lower/await_products.h"

#include <algorithm>
#include <vector>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/walk.h"

namespace lathe {
namespace {

class Waiter {
 public:
  explicit Waiter(Program program) : program_(std::move(program)) {}

  Program run() {
    std::vector<NodeRef> code = std::move(program_.code);
    program_.code.clear();
    held_.emplace_back();
    NodeMap<char> panels;
    for (const NodeRef& n : code) {
      if (n->is(Op::Store) && n->arg(2).is(Op::WaitProducts)) in_flight_.try_emplace(base_memory(n->arg(0)));
      if (n->is(Op::ProxyFence)) fences_ = std::max(fences_, n->int_attr() + 1);
      if (n->is(Op::PanelDot))
        for (std::size_t i : {std::size_t{0}, std::size_t{2}}) panels.try_emplace(base_memory(n->arg(i)));
    }
    find_writes(code, panels);
    for (const NodeRef& ref : code) instruction(ref);
    return std::move(program_);
  }

 private:
  // Which instructions of threads write panels, and which loops have such.
  void find_writes(const std::vector<NodeRef>& code, const NodeMap<char>& panels) {
    std::vector<Node> open;
    for (const NodeRef& n : code) {
      if (n->is(Op::Range) || n->is(Op::If)) open.push_back(n);
      if (n->is(Op::End) || n->is(Op::EndIf)) open.pop_back();
      if ((!n->is(Op::Store) && !n->is(Op::CopyAsync)) || !panels.contains(base_memory(n->arg(0)))) continue;
      writes_.try_emplace(n);
      for (Node scope : open) writes_.try_emplace(scope);
    }
  }

  void instruction(Node n) {
    if (n.is(Op::Range) || n.is(Op::If)) written_.push_back(n.is(Op::Range) && writes_.contains(n));
    if (writes_.contains(n) && !n.is(Op::Range) && !n.is(Op::If)) unknown_ = true;
    if (n.is(Op::End) || n.is(Op::EndIf)) {
      written_.pop_back();
      release();
      held_.pop_back();
    } else if (touches_held(n)) {
      release();
    }
    if (n.is(Op::Barrier) && needs_fence()) program_.code.emplace_back(proxy_fence(fences_++));
    if (n.is(Op::Barrier)) unknown_ = false;
    SmallVector<Node, 8> args;
    for (std::size_t i = 0; i < n.arg_count(); ++i) {
      const bool stays = (n.is(Op::PanelDot) && i == 4) || n.is(Op::WaitProducts);
      args.push_back(needs_wait(n.arg(i)) && !stays ? wait_products(named(n.arg(i))) : named(n.arg(i)));
    }
    Node now = n.arg_count() == 0 ? n : n.with_args(args);
    if (now != n) names_[n] = now;
    if (n.is(Op::Store) && n.arg(2).is(Op::PanelDot) && held_.size() > 1)
      held_.back().push_back(now);
    else
      list(now);
    if (n.is(Op::Range) || n.is(Op::If)) held_.emplace_back();
  }

  // Whether a thread may have written a panel since the last barrier: in this turn of a loop or the one
  // before.
  bool needs_fence() const {
    return unknown_ || std::any_of(written_.begin(), written_.end(), [](char w) { return w != 0; });
  }

  // What a node became; memory is after what its effects became.
  Node named(Node n) const {
    if (const Node* now = names_.find(n)) return *now;
    if (!n.is(Op::After)) return n;
    SmallVector<Node, 8> args;
    for (Node a : n.args()) args.push_back(named(a));
    return n.with_args(args);
  }
  bool needs_wait(Node value) const {
    return value.is(Op::PanelDot) || (value.is(Op::Load) && in_flight_.contains(base_memory(value.arg(0))));
  }

  void list(Node n) {
    for (Node a : n.args())
      if (a.is(Op::WaitProducts) && listed_.try_emplace(a).second) program_.code.emplace_back(a);
    if (n.is(Op::WaitProducts)) listed_.try_emplace(n);
    program_.code.emplace_back(n);
  }
  void release() {
    for (Node store : held_.back()) list(store);
    held_.back().clear();
  }
  // Whether an instruction needs what a store that waits has not stored yet.
  bool touches_held(Node n) const {
    bool any = false;
    for_each_memory(n, [&](Node memory) {
      for (Node store : held_.back()) any |= base_memory(memory) == base_memory(store.arg(0));
    });
    return any;
  }

  Program program_;
  std::vector<std::vector<Node>> held_;  // stores of results, by scope
  NodeMap<char> listed_, in_flight_;
  NodeMap<Node> names_;
  std::int64_t fences_ = 0;
  NodeMap<char> writes_;       // instructions of threads that write panels, and the loops around them
  std::vector<char> written_;  // whether panels are written somewhere in each open loop
  bool unknown_ = false;       // a thread wrote a panel, and no fence came after it
};

}  // namespace

Program await_products(Program program) {
  const bool any = std::any_of(program.code.begin(), program.code.end(),
                               [](const NodeRef& n) { return n->is(Op::PanelDot); });
  return any ? Waiter(std::move(program)).run() : program;
}

}  // namespace lathe
