#include "codegen/options/peel_steps.h"

#include <algorithm>
#include <vector>

#include "base/planted.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

// Shorter loops gain nothing, and longer bodies are not copied.
constexpr std::int64_t kLeastSteps = 3;
constexpr std::size_t kMostNodes = 96;

// The one loop of a reduce whose other ranges are all in registers, or null.
Node only_loop(Node reduce) {
  Node loop;
  bool unrolled = false;
  for (Node r : closed_ranges(reduce)) {
    if (range_kind(r) == RangeKind::Unroll) {
      unrolled = true;
      continue;
    }
    if (loop || range_kind(r) != RangeKind::Reduce) return Node();
    loop = r;
  }
  return unrolled && loop && loop.arg(0).is_const() && loop.arg(0).const_int() >= kLeastSteps ? loop : Node();
}

bool is_effect(Node n) {
  return n.is(Op::Store) || n.is(Op::End) || n.is(Op::After) || n.is(Op::Define) || n.is(Op::Barrier) ||
         n.is(Op::Carry) || n.is(Op::Fold) || n.is(Op::Check);
}

// Whether some condition holds in all steps but the last.
bool last_step_differs(std::span<const Node> nodes, Node loop, Node shorter, const RuleChanges& changes) {
  NodeMap<Node> before;
  before[loop] = shorter;
  return std::any_of(nodes.begin(), nodes.end(), [&](Node n) {
    return n.is(Op::Less) && n.arg(0).dtype().is_index() && n.lo() != 1 && depends_on(n, loop) &&
           simplify(substitute_free(n, before), changes).lo() == 1;
  });
}

Node peeled(Node reduce, FreshIds& ids, const RuleChanges& changes) {
  Node loop = only_loop(reduce), element = reduce.arg(0);
  if (!loop) return reduce;
  const std::vector<Node> nodes = toposort(element);
  if (nodes.size() > kMostNodes || std::any_of(nodes.begin(), nodes.end(), is_effect)) return reduce;
  const std::int64_t last = loop.arg(0).const_int() - 1;
  const std::int64_t behind = planted(Fault::PeelLast) ? last - 1 : last;
  Node shorter = range(index_const(last), ids.range, RangeKind::Reduce);
  if (!last_step_differs(nodes, loop, shorter, changes)) return reduce;
  ++ids.range;
  std::vector<Node> all, unrolled;
  for (Node r : closed_ranges(reduce)) {
    all.push_back(r == loop ? shorter : r);
    if (r != loop) unrolled.push_back(r);
  }
  const Op op = reduce_op(reduce);
  auto at = [&](Node step, std::span<const Node> ranges) {
    NodeMap<Node> map;
    map[loop] = step;
    return reduce_ranges(op, copy_for_loop(element, map, ids), ranges);
  };
  Node most = at(shorter, all);
  return apply(op, most, at(index_const(behind), unrolled));
}

}  // namespace

Node peel_last_steps(Node kernel, const RuleChanges& changes) {
  FreshIds ids = fresh_ids(kernel);
  NodeMap<Node> done;
  for (Node n : toposort(kernel)) {
    Node now = n;
    if (n.arg_count() > 0) {
      std::vector<Node> args;
      for (Node a : n.args()) args.push_back(*done.find(a));
      now = std::equal(args.begin(), args.end(), n.args().begin()) ? n : n.with_args(args);
    }
    done.try_emplace(n, now.is(Op::Reduce) ? peeled(now, ids, changes) : now);
  }
  return *done.find(kernel);
}

}  // namespace lathe
