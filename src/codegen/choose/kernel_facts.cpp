#include "codegen/choose/kernel_facts.h"

#include <algorithm>

#include "codegen/kernel/count.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe {
namespace {

double iterations(std::span<const Node> ranges) {
  double n = 1;
  for (Node r : ranges) n *= typical_extent(r);
  return n;
}

AccessFacts access_facts(Node n, const std::vector<RangeFacts>& ranges) {
  AccessFacts a;
  a.node = n;
  a.is_store = n.is(Op::Store);
  a.gated = n.arg_count() > (a.is_store ? 3u : 2u);
  a.strides.assign(ranges.size(), 0);
  a.times = iterations(ranges_of(n));
  Linear sum = linear(n.arg(1));
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (const Term& t : sum.terms) {
      if (t.node == ranges[i].range) {
        if (a.strides[i] != kUneven) a.strides[i] = t.coefficient;
      } else if (depends_on(t.node, ranges[i].range)) {
        a.strides[i] = kUneven;
      }
    }
  return a;
}

// In a kernel that works on rows, a load happens for every step of the loops around the reduce it is in,
// whether it depends on them or not.
void count_in_reduces(const std::vector<Node>& order, std::vector<AccessFacts>& accesses) {
  for (Node reduce : order) {
    if (!reduce.is(Op::Reduce)) continue;
    const double steps = iterations(ranges_of(reduce.arg(0)));
    for (Node n : toposort(reduce.arg(0))) {
      bool inside = n.is(Op::Load) && std::any_of(closed_ranges(reduce).begin(), closed_ranges(reduce).end(),
                                                  [&](Node r) { return depends_on(n, r); });
      if (!inside) continue;
      for (AccessFacts& a : accesses)
        if (a.node == n) a.times = std::max(a.times, steps);
    }
  }
}

}  // namespace

double KernelFacts::extent_product(RangeKind kind) const {
  double n = 1;
  for (const RangeFacts& r : ranges)
    if (r.kind == kind) n *= static_cast<double>(r.extent);
  return n;
}

bool KernelFacts::depends(Node node, std::size_t range) const {
  return depends_on(node, ranges[range].range);
}

KernelFacts kernel_facts(Node kernel) {
  KernelFacts facts;
  std::vector<Node> order = toposort(kernel);
  for (Node n : order)
    if (n.is(Op::Range)) {
      RangeFacts r;
      r.range = n;
      r.kind = range_kind(n);
      r.extent = std::max<std::int64_t>(n.arg(0).hi(), 1);
      r.constant = n.arg(0).is_const();
      r.ragged = !ranges_of(n.arg(0)).empty();
      facts.ranges.push_back(r);
    }
  std::sort(facts.ranges.begin(), facts.ranges.end(),
            [](const RangeFacts& a, const RangeFacts& b) { return range_id(a.range) < range_id(b.range); });
  for (RangeFacts& r : facts.ranges)
    for (Node n : order) {
      if (n.is(Op::Range) && n != r.range && depends_on(n.arg(0), r.range)) r.ragged = true;
      if (!n.is(Op::Fold)) continue;
      std::span<const Node> closed = closed_ranges(n);
      r.carries_tuple |= std::find(closed.begin(), closed.end(), r.range) != closed.end();
    }
  double most = 0;
  for (Node n : order) {
    if (n.is(Op::Load) || n.is(Op::Store)) {
      facts.accesses.push_back(access_facts(n, facts.ranges));
      facts.work += facts.accesses.back().times;
    }
    bool is_value = n.is(Op::Load) || n.is(Op::Cast) || n.is(Op::Reduce);
    if (is_value && !n.dtype().is_index())
      facts.element_bytes = std::max(facts.element_bytes, n.dtype().bytes());
    if (!n.is(Op::Reduce)) continue;
    ++facts.reduces;
    double steps = iterations(ranges_of(n.arg(0)));
    if (steps == most) ++facts.as_long;
    if (steps <= most) continue;
    most = steps;
    facts.reduce = n;
    facts.as_long = 1;
  }
  if (std::any_of(facts.ranges.begin(), facts.ranges.end(),
                  [](const RangeFacts& r) { return r.kind == RangeKind::Loop; }))
    count_in_reduces(order, facts.accesses);
  facts.work += count_work(kernel).flops;
  const AccessFacts* only = nullptr;
  int stores = 0;
  for (const AccessFacts& a : facts.accesses)
    if (a.is_store && base_memory(a.node.arg(0)).is(Op::Param)) only = &a, ++stores;
  facts.sums_in_output =
      stores == 1 && facts.reduce && facts.reduce.dtype() == base_memory(only->node.arg(0)).dtype();
  for (const AccessFacts& a : facts.accesses)
    if (only != nullptr && !a.is_store && base_memory(a.node.arg(0)) == base_memory(only->node.arg(0)))
      facts.sums_in_output = false;
  if (!facts.reduce || reduce_op(facts.reduce) != Op::Add || facts.reduce.dtype().is_bool()) return facts;
  Node element = facts.reduce.arg(0);
  while (element.is(Op::Cast)) element = element.arg(0);
  if (element.is(Op::Sub) && element.arg(0).is(Op::Dot)) element = element.arg(0);
  if (!element.is(Op::Mul) && !element.is(Op::Dot)) return facts;
  facts.factors[0] = element.arg(0);
  facts.factors[1] = element.arg(1);
  return facts;
}

}  // namespace lathe
