#include "codegen/options/skip_steps.h"

#include <algorithm>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 8>;

// Steps behind one test, below which it is not worth while.
constexpr std::int64_t kWorthATest = 8;

void add_conjuncts(Node condition, Nodes& out) {
  for_each_conjunct(condition, [&](Node c) {
    if (!contains(out, c)) out.push_back(c);
  });
}

// Conditions without which the element is 0.
void needed(Node element, Nodes& out) {
  switch (element.op()) {
    case Op::Load:
      if (element.arg_count() > 2) add_conjuncts(element.arg(2), out);
      break;
    case Op::Where:
      if (!is_zero(element.arg(2))) break;
      add_conjuncts(element.arg(0), out);
      needed(element.arg(1), out);
      break;
    case Op::Mul:
      needed(element.arg(0), out);
      needed(element.arg(1), out);
      break;
    case Op::Cast:
    case Op::Neg: needed(element.arg(0), out); break;
    default: break;
  }
}

bool is_loop(Node r) {
  RangeKind k = range_kind(r);
  return k == RangeKind::Global || k == RangeKind::Thread || k == RangeKind::Reduce || k == RangeKind::Loop;
}
bool reads_memory(Node condition) {
  std::vector<Node> nodes = toposort(condition);
  return std::any_of(nodes.begin(), nodes.end(), [](Node n) { return n.is(Op::Load) || n.is(Op::Reduce); });
}

}  // namespace

NodeMap<Node> skipped_steps(Node kernel) {
  NodeMap<Node> skipped;
  const std::vector<Node> order = toposort(kernel);
  NodeMap<int> closed_by;
  for (Node n : order)
    for (Node r : closed_ranges(n)) ++closed_by[r];
  for (Node n : order) {
    if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add) continue;
    Nodes loops, conditions;
    std::int64_t last_output = -1;
    for (Node r : closed_ranges(n))
      if (range_kind(r) == RangeKind::Reduce) loops.push_back(r);
    for (Node r : ranges_of(n))
      if (is_loop(r)) last_output = std::max(last_output, range_id(r));
    std::sort(loops.begin(), loops.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
    // One that is outside output loops has its partial sums in memory, in a nest with ranges of its own.
    if (loops.empty() || range_id(loops[0]) <= last_output) continue;
    needed(n.arg(0), conditions);
    for (std::size_t i = 1; i < loops.size(); ++i) {
      Node inner = loops[i];
      if (!inner.arg(0).is_const() || *closed_by.find(inner) > 1) continue;
      std::int64_t steps = 1;
      for (std::size_t j = i; j < loops.size(); ++j) steps *= std::max<std::int64_t>(loops[j].arg(0).hi(), 1);
      // What the loop right outside decides, and those around it.
      Node all;
      for (Node c : conditions) {
        std::span<const Node> ranges = ranges_of(c);
        auto outside = [&](Node r) { return is_loop(r) && range_id(r) <= range_id(loops[i - 1]); };
        if (!depends_on(c, loops[i - 1]) || !std::all_of(ranges.begin(), ranges.end(), outside)) continue;
        if (!reads_memory(c)) all = all ? logical_and(all, c) : c;
      }
      if (!all || steps < kWorthATest) continue;
      Node extent = substitute(where(all, inner.arg(0), index_const(0)), skipped);
      skipped[inner] = range(extent, range_id(inner), RangeKind::Reduce);
    }
  }
  return skipped;
}

}  // namespace lathe
