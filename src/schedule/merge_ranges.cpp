#include <algorithm>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "schedule/kernel_rules.h"

namespace lathe {
namespace {

// An index-typed node used by something that is not index arithmetic: the places where ranges meet the
// outside.
bool is_index_arithmetic(Node n) { return n.dtype() == dtypes::Index && (n.is(Op::Add) || n.is(Op::Mul)); }

struct Uses {
  std::vector<Linear> sums;  // every maximal sum that names a range
};

Uses collect(std::span<const Node> order) {
  Uses uses;
  NodeMap<char> seen;
  for (Node user : order) {
    if (is_index_arithmetic(user)) continue;
    std::span<const Node> closed = closed_ranges(user);
    for (Node a : user.args()) {
      if (a.dtype() != dtypes::Index || a.is_const()) continue;
      if (std::find(closed.begin(), closed.end(), a) != closed.end()) continue;
      if (seen.try_emplace(a).second) uses.sums.push_back(linear(a));
    }
  }
  return uses;
}

std::int64_t coefficient(const Linear& sum, Node r) {
  for (const Term& t : sum.terms)
    if (t.node == r) return t.coefficient;
  return 0;
}

bool mergeable(const Uses& uses, Node outer, Node inner) {
  std::int64_t extent = inner.arg(0).int_attr();
  for (const Linear& sum : uses.sums) {
    std::int64_t a = coefficient(sum, outer), b = coefficient(sum, inner);
    // A sum inside another expression (a division, a comparison) is listed by itself, so hidden uses are
    // found there.
    if (a != b * extent) return false;
  }
  return true;
}

}  // namespace

Node merge_ranges(Node kernel) {
  for (;;) {
    std::vector<Node> order = toposort(kernel);
    std::vector<Node> ranges;
    for (Node n : order)
      if (n.is(Op::Range)) ranges.push_back(n);
    std::sort(ranges.begin(), ranges.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
    Uses uses = collect(order);
    Node outer, inner;
    for (std::size_t i = 0; i + 1 < ranges.size() && !outer; ++i) {
      Node a = ranges[i], b = ranges[i + 1];
      if (range_kind(a) != range_kind(b) || !a.arg(0).is_const() || !b.arg(0).is_const()) continue;
      // Both must be closed by the same nodes, side by side.
      bool together = true;
      for (Node n : order) {
        std::span<const Node> closed = closed_ranges(n);
        bool has_a = std::find(closed.begin(), closed.end(), a) != closed.end();
        bool has_b = std::find(closed.begin(), closed.end(), b) != closed.end();
        together &= has_a == has_b;
      }
      if (together && mergeable(uses, a, b)) outer = a, inner = b;
    }
    if (!outer) return kernel;
    Node merged = range(index_const(outer.arg(0).int_attr() * inner.arg(0).int_attr()), range_id(outer),
                        range_kind(outer));
    // Every use is outer*E + inner: the outer range leaves the sums, the inner one becomes the whole. Closing
    // lists lose the outer one.
    NodeMap<Node> to;
    SmallVector<Node, 16> args;
    for (Node n : order) {
      if (n == outer) {
        to[n] = index_const(0);
        continue;
      }
      if (n == inner) {
        to[n] = merged;
        continue;
      }
      std::span<const Node> closed = closed_ranges(n);
      args.clear();
      std::size_t first_closed = n.arg_count() - closed.size();
      for (std::size_t i = 0; i < n.arg_count(); ++i) {
        if (i >= first_closed && n.arg(i) == outer) continue;
        args.push_back(*to.find(n.arg(i)));
      }
      to[n] = args.size() == n.arg_count()
                  ? rebuild(n, std::span<const Node>(args.data(), args.size()))
                  : intern(n.op(), n.dtype(), std::span<const Node>(args.data(), args.size()), n.attr());
    }
    kernel = *to.find(kernel);
  }
}

}  // namespace lathe
