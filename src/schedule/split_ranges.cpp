#include <algorithm>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "schedule/kernel_rules.h"

namespace lathe {
namespace {

struct Split {
  Node range;
  std::int64_t size = 0;  // of the inner half; 0: none
};

// Ranges that are compared with data, or with another range of their length: they may belong to a scan or
// scatter (codegen/kernel/scan_reduces.h), which needs them whole.
void add_compared(Node comparison, NodeMap<char>& whole) {
  if ((!comparison.is(Op::Eq) && !comparison.is(Op::Less)) || !comparison.arg(0).dtype().is_index()) return;
  Linear difference = linear(comparison.arg(0));
  difference.add(comparison.arg(1), -1);
  SmallVector<Node, 4> ranges;
  for (const Term& t : difference.terms)
    if (t.node.is(Op::Range) && (t.coefficient == 1 || t.coefficient == -1)) ranges.push_back(t.node);
  const bool with_data = comparison.is(Op::Eq) && ranges.size() < difference.terms.size();
  const bool with_range = comparison.is(Op::Less) && ranges.size() == 2 && difference.terms.size() == 2 &&
                          ranges[0].arg(0) == ranges[1].arg(0);
  if (with_data || with_range)
    for (Node r : ranges) whole[r] = 1;
  // Steps that the data depends on.
  for (Node r : with_data ? ranges_of(comparison) : std::span<const Node>())
    if (range_kind(r) == RangeKind::Reduce) whole[r] = 1;
}

// Finds a range that an index divides by a divisor of its extent, added only to constants and multiples of
// that divisor: its two halves replace quotient and remainder. With a constant, only the inner half is
// divided.
Split find_split(std::span<const Node> order) {
  NodeMap<char> carried;  // a tuple reduce stays whole
  for (Node n : order) {
    if (n.is(Op::Fold))
      for (Node r : closed_ranges(n)) carried[r] = 1;
    add_compared(n, carried);
  }
  Split best;
  for (Node n : order) {
    if ((!n.is(Op::FloorDiv) && !n.is(Op::FloorMod)) || !n.arg(1).is_const()) continue;
    const std::int64_t by = n.arg(1).int_attr();
    if (by < 2 || (best.size > 0 && by >= best.size)) continue;
    const Linear sum = linear(n.arg(0));
    Node alone;
    bool even = true;
    for (const Term& t : sum.terms) {
      if (t.coefficient % by == 0) continue;
      even &= !alone && t.coefficient == 1 && t.node.is(Op::Range);
      alone = t.node;
    }
    if (!even || !alone || !alone.arg(0).is_const()) continue;
    const std::int64_t extent = alone.arg(0).int_attr();
    if (extent % by != 0 || extent == by) continue;
    if (range_kind(alone) == RangeKind::Loop || carried.contains(alone)) continue;
    best = {alone, by};
  }
  return best;
}

}  // namespace

Node split_ranges(Node kernel, const RuleChanges& changes) {
  for (;;) {
    const std::vector<Node> order = toposort(kernel);
    const Split split = find_split(order);
    if (split.size == 0) return kernel;
    // Ids are spread, so that the inner half has one right behind the outer one's.
    NodeMap<Node> to;
    Node outer, inner;
    SmallVector<Node, 16> args;
    for (Node n : order) {
      if (n == split.range) {
        outer = range(index_const(n.arg(0).int_attr() / split.size), range_id(n) * 2, range_kind(n));
        inner = range(index_const(split.size), range_id(n) * 2 + 1, range_kind(n));
        to[n] = outer * index_const(split.size) + inner;
        continue;
      }
      if (n.is(Op::Range)) {
        to[n] = range(*to.find(n.arg(0)), range_id(n) * 2, range_kind(n));
        continue;
      }
      const std::size_t first_closed = n.arg_count() - closed_ranges(n).size();
      args.clear();
      for (std::size_t i = 0; i < n.arg_count(); ++i) {
        if (i >= first_closed && n.arg(i) == split.range) {
          args.push_back(outer);
          args.push_back(inner);
        } else {
          args.push_back(*to.find(n.arg(i)));
        }
      }
      std::span<const Node> all(args.data(), args.size());
      to[n] = args.size() == n.arg_count() ? rebuild(n, all) : intern(n.op(), n.dtype(), all, n.attr());
    }
    kernel = simplify_kernel(*to.find(kernel), changes);
  }
}

}  // namespace lathe
