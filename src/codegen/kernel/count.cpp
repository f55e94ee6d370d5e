#include "codegen/kernel/count.h"

#include <algorithm>

#include "codegen/kernel/scan_reduces.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Unlike those that are weighed: a range of no steps has none.
double steps_of(std::span<const Node> ranges) {
  double n = 1;
  for (Node r : ranges) n *= r.arg(0).is_const() ? static_cast<double>(r.arg(0).hi()) : typical_extent(r);
  return n;
}

bool is_arithmetic(Node n) {
  if (!is_scalar_op(n.op()) || n.is(Op::Where)) return false;
  return !n.arg(0).dtype().is_index() && !n.arg(0).dtype().is_bool();
}

// Steps of a reduce. A serial scan or scatter runs each step once, not once per output it is compared with.
double steps_of(Node reduce) {
  double steps = steps_of(ranges_of(reduce.arg(0)));
  for (Node r : ranges_of(reduce))
    if (range_kind(r) == RangeKind::Global &&
        (selected_row(reduce, r) || running_step(reduce, r, kRulesAsWritten)))
      steps /= std::max(steps_of({&r, 1}), 1.0);
  return steps;
}

}  // namespace

Work count_work(Node kernel) {
  Work work;
  NodeMap<double> touched[2];  // elements read and written, per param
  for (Node n : toposort(kernel)) {
    if (is_arithmetic(n)) work.flops += (n.is(Op::Fma) ? 2 : 1) * steps_of(ranges_of(n));
    if (n.is(Op::Reduce)) work.flops += steps_of(n);
    if (!n.is(Op::Load) && !n.is(Op::Store)) continue;
    Node memory = base_memory(n.arg(0));
    if (memory.is(Op::Param)) touched[n.is(Op::Store)][memory] += steps_of(ranges_of(n.arg(1)));
  }
  for (auto& list : touched)
    for (auto& [memory, elements] : list)
      work.bytes += std::min(elements, static_cast<double>(memory_size(memory))) * memory.dtype().bytes();
  return work;
}

}  // namespace lathe
