#include "codegen/kernel/substitute.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"

namespace lathe {
namespace {

bool mentions(Node node, const NodeMap<Node>& map) {
  for (Node r : ranges_of(node))
    if (map.contains(r)) return true;
  return false;
}

// The part of the map that is visible inside a node that closes ranges; empty optional-like: null when all of
// it is.
bool hides(Node node, const NodeMap<Node>& map) {
  for (Node r : closed_ranges(node))
    if (map.contains(r)) return true;
  return false;
}

// The root with every node that `replaced` has an answer for exchanged; where it gives null, the operands are
// asked. Each node once, without recursion.
Node rebuilt(Node root, const std::function<Node(Node)>& replaced) {
  NodeMap<Node> done;
  std::vector<std::pair<Node, std::size_t>> stack;
  auto enter = [&](Node n) {
    if (done.contains(n)) return;
    if (Node now = replaced(n))
      done.try_emplace(n, now);
    else
      stack.emplace_back(n, 0);
  };
  enter(root);
  SmallVector<Node, 16> args;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < node.arg_count()) {
      Node arg = node.arg(next++);
      enter(arg);
      continue;
    }
    Node top = node;
    stack.pop_back();
    if (done.contains(top)) continue;
    args.clear();
    for (Node a : top.args()) args.push_back(*done.find(a));
    done.try_emplace(top, rebuild(top, args));
  }
  return *done.find(root);
}

}  // namespace

Node substitute_free(Node root, const NodeMap<Node>& map) {
  return rebuilt(root, [&](Node n) {
    if (const Node* to = map.find(n)) return *to;
    if (!mentions(n, map)) return n;
    if (!hides(n, map)) return Node();
    NodeMap<Node> visible;  // closers nest a few deep at most, so recursion is bounded
    std::span<const Node> closed = closed_ranges(n);
    for (auto& [from, to] : map)
      if (std::find(closed.begin(), closed.end(), from) == closed.end()) visible.try_emplace(from, to);
    SmallVector<Node, 16> args;
    for (Node a : n.args()) args.push_back(substitute_free(a, visible));
    return rebuild(n, args);
  });
}

namespace {

// Memory that loops inside the copied ranges write, with ids of its own. The set of ranges grows by what
// those loops close.
NodeMap<Node> own_memory(std::span<const Node> order, const NodeMap<Node>& map, FreshIds& ids) {
  NodeMap<Node> inside = map, memory;
  for (std::size_t before = 0; before != inside.size();) {
    before = inside.size();
    for (Node n : order) {
      if (!mentions(n, inside)) continue;
      for (Node r : closed_ranges(n)) inside.try_emplace(r, r);
      Node written = n.is(Op::Store) ? base_memory(n.arg(0)) : Node();
      if (written && written.is(Op::Define) && !memory.contains(written))
        memory.try_emplace(written, define(written.dtype(), ids.define++, memory_size(written),
                                           define_space(written), shared_form(written)));
    }
  }
  return memory;
}

// A loop inside gets ranges of its own; within it, its ranges are these, whatever the map says about them
// outside.
Node copy_within(Node root, const NodeMap<Node>& map, const NodeMap<Node>& memory, FreshIds& ids) {
  return rebuilt(root, [&](Node n) {
    if (const Node* to = map.find(n)) return *to;
    if (const Node* own = memory.find(n)) return *own;
    if (!mentions(n, map)) return n;
    if (closed_ranges(n).empty()) return Node();
    NodeMap<Node> visible;
    for (Node r : closed_ranges(n)) visible.try_emplace(r, range(r.arg(0), ids.range++, range_kind(r)));
    for (auto& [from, to] : map) visible.try_emplace(from, to);
    SmallVector<Node, 16> args;
    for (Node a : n.args()) args.push_back(copy_within(a, visible, memory, ids));
    return rebuild(n, args);
  });
}

}  // namespace

Node copy_for_loop(Node root, const NodeMap<Node>& map, FreshIds& ids) {
  NodeMap<Node> memory = own_memory(toposort(root), map, ids);
  return copy_within(root, map, memory, ids);
}

Node under_gate(Node value, Node gate, const std::function<bool(Node)>& applies) {
  NodeMap<Node> done;
  SmallVector<Node, 16> args;
  for (Node n : toposort(value)) {
    args.clear();
    for (Node a : n.args()) args.push_back(*done.find(a));
    Node now = n.arg_count() == 0 ? n : rebuild(n, std::span<const Node>(args.data(), args.size()));
    if (n.is(Op::Load) && applies(n))
      now = load(n.arg(0), args[1], args.size() > 2 ? logical_and(args[2], gate) : gate, n.dtype().lanes);
    else if (n.is(Op::Check) && applies(n)) {
      args[2] = logical_and(args[2], gate);
      now = rebuild(n, std::span<const Node>(args.data(), args.size()));
    }
    done.try_emplace(n, now);
  }
  return *done.find(value);
}

FreshIds fresh_ids(Node root) {
  FreshIds next;
  for (Node n : toposort(root)) {
    if (n.is(Op::Define)) next.define = std::max(next.define, define_id(n) + 1);
    if (n.is(Op::Range)) next.range = std::max(next.range, range_id(n) + 1);
    if (n.is(Op::Fold)) next.fold = std::max(next.fold, n.ints()[0] + 1);
  }
  return next;
}

}  // namespace lathe
