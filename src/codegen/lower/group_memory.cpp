#include "codegen/lower/group_memory.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe {

namespace {

using Nodes = SmallVector<Node, 16>;

struct Access {
  Node node;
  std::int64_t offset;
};

// Accesses of one memory under one gate whose indices differ by constants.
struct Neighbours {
  Node memory, gate, base;
  Node owner;    // of a store: what waits for it
  Nodes closed;  // and the ranges its End closes
  std::vector<Access> accesses;
};

class Grouper {
 public:
  explicit Grouper(const Target& target) : widest_(target.max_load_bytes) {}

  Node run(Node kernel) {
    std::vector<Node> order = toposort(kernel);
    for (Node n : order)
      if (n.is(Op::Load) && n.dtype().lanes == 1) note(n, Node(), {});
    // Stores are effects of the kernel, or of a barrier where threads fill a panel. Those that something else
    // waits for too stay as they are.
    NodeMap<int> users;
    for (Node n : order)
      for (Node a : n.args()) ++users[a];
    for (Node owner : order) {
      if (!owner.is(Op::Sink) && !owner.is(Op::Barrier)) continue;
      for (Node e : owner.args()) {
        Node effect = e.is(Op::End) ? e.arg(0) : e;
        if (effect.is(Op::Store) && effect.arg(2).dtype().lanes == 1 && users[e] == 1)
          note(e, owner, e.is(Op::End) ? closed_ranges(e) : std::span<const Node>());
      }
    }
    for (Neighbours& group : groups_) join(group);
    if (loads_.empty() && stores_.empty()) return kernel;
    for (Node n : order) done_.try_emplace(n, rewrite(n));
    return *done_.find(kernel);
  }

 private:
  void note(Node n, Node owner, std::span<const Node> closed) {
    Node access = n.is(Op::End) ? n.arg(0) : n;
    std::size_t gate_at = access.is(Op::Load) ? 2 : 3;
    Node index = access.arg(1), gate = access.arg_count() > gate_at ? access.arg(gate_at) : Node();
    if (base_memory(access.arg(0)).is(Op::Define) &&
        define_space(base_memory(access.arg(0))) == Space::Register)
      return;
    std::int64_t offset = 0;
    if (index.is(Op::Add) && index.arg(1).is_const())
      offset = index.arg(1).int_attr(), index = index.arg(0);
    else if (index.is_const())
      offset = index.int_attr(), index = index_const(0);
    for (Neighbours& g : groups_) {
      bool same = g.memory == access.arg(0) && g.base == index && g.gate == gate && g.owner == owner &&
                  std::equal(g.closed.begin(), g.closed.end(), closed.begin(), closed.end()) &&
                  g.accesses[0].node.is(Op::Load) == n.is(Op::Load);
      if (!same) continue;
      g.accesses.push_back({n, offset});
      return;
    }
    groups_.push_back({access.arg(0), gate, index, owner, Nodes(closed), {{n, offset}}});
  }

  // Runs of consecutive offsets, cut into pieces of the widest power of two that fits and is aligned.
  void join(Neighbours& group) {
    std::vector<Access>& all = group.accesses;
    std::sort(all.begin(), all.end(), [](const Access& a, const Access& b) { return a.offset < b.offset; });
    std::int64_t divisor = known_divisor(group.base);
    for (std::size_t i = 0; i < all.size();) {
      std::int64_t lanes = 1;
      for (std::int64_t n = 2; n * group.memory.dtype().bytes() <= widest_; n *= 2) {
        bool aligned = divisor % n == 0 && all[i].offset % n == 0;
        bool whole = i + static_cast<std::size_t>(n) <= all.size() &&
                     all[i + static_cast<std::size_t>(n) - 1].offset == all[i].offset + n - 1;
        if (aligned && whole) lanes = n;
      }
      if (lanes > 1) piece(group.base, {all.data() + i, static_cast<std::size_t>(lanes)});
      i += static_cast<std::size_t>(lanes);
    }
  }
  void piece(Node base, std::span<const Access> accesses) {
    bool is_load = accesses[0].node.is(Op::Load);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      if (is_load)
        loads_.try_emplace(accesses[i].node, Lanes{base, accesses[0].offset, accesses.size(), i});
      else if (i > 0)
        stores_.try_emplace(accesses[i].node, {});
    }
    if (!is_load) {
      std::vector<Node> members;
      for (const Access& a : accesses) members.push_back(a.node);
      stores_.try_emplace(accesses[0].node, std::move(members));
    }
  }

  Node at(Node n) const { return *done_.find(n); }

  Node rewrite(Node n) {
    if (n.arg_count() == 0) return n;
    if (const Lanes* lanes = loads_.find(n)) {
      Node base = lanes->base.is_const() ? lanes->base : at(lanes->base);
      Node gate = n.arg_count() > 2 ? at(n.arg(2)) : Node();
      Node wide = load(at(n.arg(0)), base + index_const(lanes->offset), gate,
                       static_cast<std::uint16_t>(lanes->count));
      return lane(wide, static_cast<std::int64_t>(lanes->which));
    }
    Nodes args;
    for (Node a : n.args()) args.push_back(at(a));
    if (n.is(Op::Sink) || n.is(Op::Barrier)) {
      Nodes kept;
      for (std::size_t i = 0; i < args.size(); ++i) {
        const std::vector<Node>* members = stores_.find(n.arg(i));
        if (members == nullptr)
          kept.push_back(args[i]);
        else if (!members->empty())
          kept.push_back(wide_store(*members));
      }
      return n.is(Op::Sink) ? sink(kept) : barrier(kept);
    }
    return rebuild(n, args);
  }
  Node wide_store(const std::vector<Node>& members) {
    auto effect = [&](Node m) { return at(m).is(Op::End) ? at(m).arg(0) : at(m); };
    Node first = effect(members[0]);
    Nodes values;
    for (Node m : members) values.push_back(effect(m).arg(2));
    Node gate = first.arg_count() > 3 ? first.arg(3) : Node();
    Node wide = store(first.arg(0), first.arg(1), vec(values), gate);
    return at(members[0]).is(Op::End) ? end(wide, closed_ranges(at(members[0]))) : wide;
  }

  struct Lanes {
    Node base;  // and offset: the index of the first
    std::int64_t offset = 0;
    std::size_t count = 0, which = 0;
  };
  int widest_;
  std::vector<Neighbours> groups_;
  NodeMap<Lanes> loads_;
  NodeMap<std::vector<Node>> stores_;  // effect of the first -> all; of the others -> none
  NodeMap<Node> done_;
};

}  // namespace

Node group_memory(Node kernel, Lowering& lowering) {
  if (lowering.target.vectors) return kernel;
  return Grouper(lowering.target).run(kernel);
}

}  // namespace lathe
