#include "codegen/lower/join_stores.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/lower/relist.h"
#include "ir/access.h"
#include "ir/build.h"
#include "ir/range_tests.h"
#include "rules/index_parts.h"

namespace lathe {
namespace {

// What waits is held in registers.
constexpr std::size_t kMostWaiting = 32;

Node base_of(Node store) { return base_memory(store.arg(0)); }
bool is_streamed(Node store) { return access_of(store).past == 0; }

// A gate that is not always open, or null.
Node gate_of(Node store) {
  Node gate = store.arg_count() > 3 ? store.arg(3) : Node();
  return gate && gate.is_const_int(1) ? Node() : gate;
}

// A value that a gate chooses, with no memory behind it.
bool is_register(Node base) {
  return base.is(Op::Define) && memory_size(base) == 1 && !base.dtype().is_bool();
}

bool are_apart(Node x, Node y) {
  return base_of(x) != base_of(y) ||
         lathe::are_apart(x.arg(1), x.arg(2).dtype().lanes, y.arg(1), y.arg(2).dtype().lanes);
}

// Computes a value and nothing else.
bool is_pure(Node n) {
  switch (n.op()) {
    case Op::Cast:
    case Op::Bitcast:
    case Op::Splat:
    case Op::Vec:
    case Op::Lane:
    case Op::Iota:
    case Op::HReduce:
    case Op::Pack:
    case Op::Dot:
    case Op::Narrow:
    case Op::Table:
    case Op::Fraction:
    case Op::Scale:
    case Op::After:
    case Op::Prefetch: return true;
    default: return is_scalar_op(n.op());
  }
}

class Joiner {
 public:
  Joiner(Program program, const Target& target) : list_(std::move(program)), target_(target) {}

  Program run() {
    for (Node n : list_.before())
      if (n.is(Op::Store) && n.arg_count() == 3) bare_.try_emplace(n);
    for (Node n : list_.before()) {
      if (!may_pass(n)) flush();
      if (n.is(Op::Store) && waits(n) && !is_register(base_of(n)))
        hold(n);
      else
        list_.keep(n);
    }
    flush();
    return list_.take();
  }

 private:
  struct Group {
    Node gate;
    bool streamed = false;
    std::vector<Node> stores;
  };

  bool takes_branch(Node store) const {
    Node gate = gate_of(store);
    // Strided lanes need no branch where the machine stores them under a mask.
    const bool masked = store.arg(1).dtype().lanes > 1 && target_.gathers(store.arg(2).dtype());
    return gate ? gate.dtype().lanes == 1 && !masked : is_streamed(store);
  }
  // Lanes a constant distance apart: where other such stores write the elements beside them, they are rows.
  static bool is_strided(Node store) {
    return !gate_of(store) && !is_streamed(store) && !store.arg(2).dtype().is_bool() &&
           !constant_lanes(index_parts(store.arg(1)).lanes).empty();
  }
  bool waits(Node store) const { return takes_branch(store) || is_strided(store); }

  // Whether an instruction may come before the stores that wait.
  bool may_pass(Node n) const {
    if (groups_.empty() || is_pure(n)) return true;
    if ((!n.is(Op::Store) && !n.is(Op::Load)) || follows_waiting(n.arg(0))) return false;
    if (n.is(Op::Store)) return waits(n);
    const auto is_read = [&](Node store) { return base_of(store) == base_memory(n.arg(0)); };
    return std::none_of(groups_.begin(), groups_.end(), [&](const Group& group) {
      return std::any_of(group.stores.begin(), group.stores.end(), is_read);
    });
  }

  // Whether memory is what it is after a store that waits: whoever uses it would come before that store if it
  // joined others that were there earlier.
  bool follows_waiting(Node memory) const {
    for (; memory.is(Op::After); memory = memory.arg(0))
      for (Node effect : memory.args().subspan(1))
        for (const Group& group : groups_)
          if (contains(group.stores, effect)) return true;
    return false;
  }

  void hold(Node store) {
    const Node gate = gate_of(store);
    const bool streamed = is_streamed(store);
    const auto same = [&](const Group& group) {
      return group.gate == gate && group.streamed == streamed &&
             (!streamed || base_of(group.stores.front()) == base_of(store));
    };
    std::size_t waiting = 0;
    bool meets = false;
    for (const Group& group : groups_) {
      waiting += group.stores.size();
      meets |= !same(group) && !std::all_of(group.stores.begin(), group.stores.end(),
                                            [&](Node other) { return are_apart(other, store); });
    }
    if (meets || waiting >= kMostWaiting) flush();
    auto found = std::find_if(groups_.begin(), groups_.end(), same);
    if (found == groups_.end()) found = groups_.insert(found, {gate, streamed, {}});
    found->stores.push_back(store);
    if (!base_of(store).is(Op::Param)) flush();
  }

  void flush() {
    for (const Group& group : std::exchange(groups_, {})) {
      if (!group.gate) {
        for (Node store : group.stores) list_.keep(store);
        continue;
      }
      AttrData number{"", {branches_++}};
      Node branch = list_.put(intern(Op::If, dtypes::Void, {list_.named(group.gate)}, Attr::of(number)));
      for (Node store : group.stores) {
        const Node bare = intern(Op::Store, dtypes::Void, store.args().first(3), store.attr());
        // Stores of one value to one place, whose gates differ or one of which has none, would be one
        // instruction.
        if (bare_.try_emplace(bare).second)
          list_.replace(store, bare);
        else
          list_.keep(store);
      }
      list_.put(intern(Op::EndIf, dtypes::Void, {branch}));
    }
  }

  Relist list_;
  const Target& target_;
  std::vector<Group> groups_;
  NodeMap<char> bare_;  // stores that have no gate, or lost it
  std::int64_t branches_ = 0;
};

}  // namespace

Program join_stores(Program program, const Target& target) {
  if (!target.vectors) return program;
  const auto stands_alone = [](const NodeRef& n) {
    return !n->is(Op::Store) || (n->arg_count() == 3 && n->arg(1).dtype().lanes == 1 && !is_streamed(n));
  };
  if (std::all_of(program.code.begin(), program.code.end(), stands_alone)) return program;
  return Joiner(std::move(program), target).run();
}

}  // namespace lathe
