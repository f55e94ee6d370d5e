#include "ir/ranges.h"

#include <algorithm>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/shape.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Marks "computed, none" in the memo, since null means "not computed yet".
Node none() {
  static const NodeRef* empty = new NodeRef(intern(Op::Dims, dtypes::Void, {}));
  return *empty;
}

bool by_id(Node a, Node b) {
  return range_id(a) != range_id(b) ? range_id(a) < range_id(b) : a.key() < b.key();
}

using Set = SmallVector<Node, 16>;

// Adds a set to another, both in order of id.
void merge(Set& into, std::span<const Node> from) {
  std::size_t at = 0;
  for (Node r : from) {
    while (at < into.size() && into[at] != r && by_id(into[at], r)) ++at;
    if (at == into.size() || into[at] != r) into.insert(into.begin() + at, r);
    ++at;
  }
}

// The components of a fold that one of them is made of, itself included: those whose running values its step
// reads.
std::vector<char> components_read(Node fold, std::size_t component) {
  const auto n = static_cast<std::size_t>(fold.ints()[1]);
  std::vector<char> needed(n, 0);
  std::vector<std::size_t> left{component};
  while (!left.empty()) {
    const std::size_t c = left.back();
    left.pop_back();
    if (needed[c] != 0) continue;
    needed[c] = 1;
    for (Node node : toposort(fold.arg(n + c)))
      if (node.is(Op::Carry) && node.ints()[0] == fold.ints()[0])
        left.push_back(static_cast<std::size_t>(node.ints()[1]));
  }
  return needed;
}

// One value of a tuple depends on what its own components do, not on what others do.
Node compute_component(Node get) {
  Node fold = get.arg(0);
  const auto n = static_cast<std::size_t>(fold.ints()[1]);
  const std::vector<char> needed = components_read(fold, static_cast<std::size_t>(get.int_attr()));
  std::span<const Node> closed = closed_ranges(fold);
  Set all;
  for (std::size_t c = 0; c < n; ++c)
    if (needed[c] != 0) merge(all, ranges_of(fold.arg(c))), merge(all, ranges_of(fold.arg(n + c)));
  for (Node r : closed) merge(all, ranges_of(r.arg(0)));  // ragged extents
  auto bound = [&](Node r) { return std::find(closed.begin(), closed.end(), r) != closed.end(); };
  all.resize(static_cast<std::size_t>(std::remove_if(all.begin(), all.end(), bound) - all.begin()));
  return all.empty() ? none() : dims(std::span<const Node>(all.data(), all.size()));
}

Node compute(Node node) {
  if (node.is(Op::Get) && node.arg(0).is(Op::Fold) && node.arg(0).ints()[2] == 0 &&
      !ranges_of(node.arg(0)).empty())
    return compute_component(node);
  if (node.is(Op::Range)) {
    Set all;
    merge(all, ranges_of(node.arg(0)));  // a ragged extent
    merge(all, {&node, 1});
    return dims(std::span<const Node>(all.data(), all.size()));
  }
  // Most nodes inherit the set of one operand whole.
  Node largest;
  SmallVector<Node, 4> sets;  // of the operands, each once, and none that is empty
  for (Node a : node.args()) {
    ranges_of(a);
    Node set(a->ranges.load(std::memory_order_acquire));
    if (set == none() || std::find(sets.begin(), sets.end(), set) != sets.end()) continue;
    sets.push_back(set);
    if (!largest || set.arg_count() > largest.arg_count()) largest = set;
  }
  if (!largest) return none();
  std::span<const Node> closed = closed_ranges(node);
  if (sets.size() == 1 && closed.empty()) return largest;
  Set all;
  for (Node set : sets) merge(all, set.args());
  if (closed.empty() && all.size() == largest.arg_count()) return largest;
  auto bound = [&](Node r) { return std::find(closed.begin(), closed.end(), r) != closed.end(); };
  all.resize(static_cast<std::size_t>(std::remove_if(all.begin(), all.end(), bound) - all.begin()));
  return all.empty() ? none() : dims(std::span<const Node>(all.data(), all.size()));
}

}  // namespace

std::span<const Node> ranges_of(Node node) {
  if (node->ranges.load(std::memory_order_acquire) == nullptr) {
    std::vector<Node> stack{node};
    while (!stack.empty()) {
      Node top = stack.back();
      if (top->ranges.load(std::memory_order_acquire) != nullptr) {
        stack.pop_back();
        continue;
      }
      std::size_t before = stack.size();
      for (Node a : top.args())
        if (a->ranges.load(std::memory_order_acquire) == nullptr) stack.push_back(a);
      if (stack.size() != before) continue;
      remember_ranges(top, compute(top));
      stack.pop_back();
    }
  }
  return Node(node->ranges.load(std::memory_order_acquire)).args();
}

bool depends_on(Node node, Node range) {
  std::span<const Node> all = ranges_of(node);
  return std::find(all.begin(), all.end(), range) != all.end();
}

std::span<const Node> closed_ranges(Node node) {
  if (node.is(Op::Reduce) && node.attr().kind == Attr::Kind::Int) return node.args().subspan(1);
  if (node.is(Op::End) && node.arg_count() > 1) return node.args().subspan(1);
  if (node.is(Op::Fold)) {
    auto n = static_cast<std::size_t>(node.ints()[1]) * (node.ints()[2] != 0 ? 3 : 2);
    return node.args().subspan(n);
  }
  return {};
}

double typical_extent(Node range) {
  Node extent = range.arg(0);
  auto most = static_cast<double>(std::max<std::int64_t>(extent.hi(), 1));
  if (ranges_of(extent).empty()) return most;
  int loads = 0;
  for (Node n : toposort(extent)) loads += n.is(Op::Load);
  if (loads < 2) return most;
  for (Node outer : ranges_of(extent)) most /= typical_extent(outer);
  return std::max(most, 1.0);
}

std::vector<Node> all_ranges(Node root) {
  std::vector<Node> out;
  for (Node n : toposort(root))
    if (n.is(Op::Range)) out.push_back(n);
  std::sort(out.begin(), out.end(), by_id);
  return out;
}

}  // namespace lathe
