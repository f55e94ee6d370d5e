#include "codegen/options/join_ranges.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/planted.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

bool has(std::span<const Node> ranges, Node range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

// Why the two are not joined, or null.
const char* hindrance(std::span<const Node> order, Node outer, Node inner) {
  if (outer == inner) return "a range is joined with another one";
  for (Node r : {outer, inner}) {
    if (range_kind(r) != RangeKind::Global && range_kind(r) != RangeKind::Reduce)
      return "only output ranges and reduces are joined";
    if (!r.arg(0).is_const() || r.arg(0).const_int() < 1) return "only ranges of constant extent are joined";
  }
  if (range_kind(outer) != range_kind(inner)) return "an output range and a reduce are not joined";
  for (Node n : order) {
    const std::span<const Node> closed = closed_ranges(n);
    if (has(closed, outer) != has(closed, inner))
      return "the ranges are not closed by the same sums and stores";
    if (n.is(Op::Fold) && has(closed, outer))
      return "a reduce that carries a tuple takes its steps one after the other";
    if (n.is(Op::Range) && (depends_on(n.arg(0), outer) || depends_on(n.arg(0), inner)))
      return "the extent of another range depends on them";
  }
  return nullptr;
}

}  // namespace

OrRefusal<Node> join_ranges(Node kernel, Node outer, Node inner, const Opt& opt, const RuleChanges& rules) {
  const std::vector<Node> order = toposort(kernel);
  if (const char* reason = hindrance(order, outer, inner)) return Refusal{to_string({&opt, 1}), reason};
  Node extent = inner.arg(0);
  const std::int64_t steps = outer.arg(0).const_int() * extent.const_int() - planted(Fault::JoinExtent);
  Node joined = range(index_const(steps), range_id(outer), range_kind(outer));
  NodeMap<Node> to;
  to[outer] = floor_div(joined, extent);
  to[inner] = floor_mod(joined, extent);
  SmallVector<Node, 16> args;
  for (Node n : order) {
    if (n == outer || n == inner) continue;
    const std::span<const Node> closed = closed_ranges(n);
    const std::size_t first_closed = n.arg_count() - closed.size();
    args.clear();
    for (std::size_t i = 0; i < n.arg_count(); ++i) {
      if (i < first_closed || (n.arg(i) != outer && n.arg(i) != inner))
        args.push_back(*to.find(n.arg(i)));
      else if (n.arg(i) == outer)
        args.push_back(joined);
    }
    const std::span<const Node> all(args.data(), args.size());
    to[n] = args.size() == n.arg_count() ? rebuild(n, all) : intern(n.op(), n.dtype(), all, n.attr());
  }
  // p/E*E + p%E is p.
  return simplify(*to.find(kernel), rules);
}

}  // namespace lathe
