#include "ir/walk.h"

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/pending.h"

namespace lathe {
namespace {

struct Frame {
  Node node;
  std::uint32_t next;
};

// Which nodes a walk has met. One walk at a time, whichever comes first, may note it on the nodes themselves:
// a number that no walk had before. Others (on other threads, or started inside that walk) use a set.
class Seen {
 public:
  Seen() : owns_marks_(!marks_taken.exchange(true, std::memory_order_acquire)) {
    if (owns_marks_) number_ = ++last_number;
  }
  ~Seen() {
    if (owns_marks_) marks_taken.store(false, std::memory_order_release);
  }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;

  // Whether the node is new to this walk.
  bool add(Node node) {
    if (!owns_marks_) return set_.try_emplace(node).second;
    if (node->mark == number_) return false;
    node->mark = number_;
    return true;
  }

 private:
  static inline std::atomic<bool> marks_taken{false};
  static inline std::uint64_t last_number = 0;  // guarded by marks_taken

  bool owns_marks_;
  std::uint64_t number_ = 0;
  NodeMap<char> set_;
};

// `operands` gives those of a node that are followed.
template <class Operands>
std::vector<Node> sort_from(std::span<const Node> roots, Operands operands) {
  std::vector<Node> order;
  Seen seen;
  std::vector<Frame> stack;
  for (Node root : roots) {
    if (!seen.add(root)) continue;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      Frame& top = stack.back();
      const std::span<const Node> args = operands(top.node);
      if (top.next < args.size()) {
        Node arg = args[top.next++];
        if (!seen.add(arg)) continue;
        if (arg.arg_count() == 0)
          order.push_back(arg);
        else
          stack.push_back({arg, 0});
      } else {
        order.push_back(top.node);
        stack.pop_back();
      }
    }
  }
  return order;
}

}  // namespace

std::vector<Node> toposort(std::span<const Node> roots) {
  return sort_from(roots, [](Node n) { return n.args(); });
}
std::vector<Node> toposort(std::span<const Node> roots, bool (*enter)(Node)) {
  return sort_from(roots, [&](Node n) { return n.args().first(enter(n) ? n.arg_count() : 0); });
}
std::vector<Node> still_to_compute(std::span<const Node> roots) {
  return sort_from(roots, [](Node n) { return realized(n) ? n.args().first(0) : computed_from(n); });
}

NodeMap<std::uint32_t> use_counts(std::span<const Node> order) {
  NodeMap<std::uint32_t> counts;
  counts.reserve(order.size());
  for (Node n : order) {
    counts.try_emplace(n);
    for (Node a : n.args()) ++counts[a];
  }
  return counts;
}

Node rebuild(Node node, std::span<const Node> args) {
  if (std::equal(args.begin(), args.end(), node.args().begin(), node.args().end())) return node;
  if (is_scalar_op(node.op())) {
    if (args.size() == 2) return apply(node.op(), args[0], args[1]);
    if (args.size() == 1) return apply(node.op(), args[0]);
    return apply(node.op(), args[0], args[1], args[2]);
  }
  if (node.is(Op::Cast)) return cast(args[0], node.dtype());
  if (node.is(Op::Bitcast)) return bitcast(args[0], node.dtype());
  if (node.is(Op::Check)) return check(args[0], args[1], args[2], node.text());
  if (node.is(Op::Pack)) return pack(args);
  if (node.is(Op::Dot)) return dot(dot_kind(node), args[0], args[1], args[2], dot_shape(node));
  return node.with_args(args);
}

Node substitute(Node root, const NodeMap<Node>& map) {
  NodeMap<Node> done;
  std::vector<Frame> stack;
  auto enter = [&](Node n) {
    if (const Node* to = map.find(n))
      done.try_emplace(n, *to);
    else if (n.arg_count() == 0)
      done.try_emplace(n, n);
    else if (!done.contains(n))
      stack.push_back({n, 0});
  };
  enter(root);
  SmallVector<Node, 16> args;
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.node.arg_count()) {
      Node arg = top.node.arg(top.next++);
      if (!done.contains(arg)) enter(arg);
      continue;
    }
    Node node = top.node;
    stack.pop_back();
    if (done.contains(node)) continue;
    args.clear();
    for (Node a : node.args()) args.push_back(*done.find(a));
    done.try_emplace(node, rebuild(node, std::span<const Node>(args.data(), args.size())));
  }
  return *done.find(root);
}

}  // namespace lathe
