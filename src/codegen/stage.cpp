#include "codegen/stage.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "codegen/lanes.h"
#include "codegen/substitute.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

bool in_group(Node range) {
  return range_kind(range) == RangeKind::Local || range_kind(range) == RangeKind::Group;
}

// Whether copying with lanes along a register range reads and writes side by side; else one element at a time
// is as good.
bool runs_along(Node value, Node range) {
  std::int64_t stride = 0;
  bool registers = range_kind(range) == RangeKind::Upcast || range_kind(range) == RangeKind::Unroll;
  return registers && value.is(Op::Load) && is_affine(value.arg(1), range, stride) && stride == 1;
}

// A panel is indexed by the ranges below its loop; threads of a group fill it together, each its own part.
class Stager {
 public:
  Stager(Node kernel, const Target& target) : target_(target), ids_(fresh_ids(kernel)) {
    for (Node r : all_ranges(kernel)) {
      if (in_group(r)) group_.push_back(r);
      if (range_kind(r) == RangeKind::Reduce) first_reduce_ = std::min(first_reduce_, range_id(r));
    }
  }

  Node panel_read(Node value, int position) {
    Nodes above, below, copied;
    for (Node r : ranges_of(value)) {
      bool launch = range_kind(r) == RangeKind::Thread || range_kind(r) == RangeKind::Global;
      bool outside = range_id(r) <= position && !in_group(r);
      (outside || (launch && target_.groups) ? above : below).push_back(r);
    }
    NodeMap<Node> map;
    Node index = index_const(0);
    std::int64_t size = 1;
    for (Node r : below) {
      std::int64_t extent = std::max<std::int64_t>(r.arg(0).hi(), 1);
      index = index * index_const(extent) + r;
      size *= extent;
      if (in_group(r)) continue;
      copied.push_back(
          range(r.arg(0), ids_.range++, runs_along(value, r) ? RangeKind::Upcast : RangeKind::Loop));
      map.try_emplace(r, copied.back());
    }
    bytes_ += size * value.dtype().bytes();
    if (bytes_ > target_.shared_bytes)
      throw KernelOptError("STAGE", fmt::format("panels of {} bytes exceed the {} bytes of target {}", bytes_,
                                                target_.shared_bytes, target_.name));
    // Without groups a panel is private to its thread.
    Node panel = define(value.dtype(), ids_.define++, size, group_.empty() ? Space::Register : Space::Shared);
    Nodes order;
    for (Node r : above)
      if (range_kind(r) != RangeKind::Upcast) order.push_back(r);
    // Nobody may still read the panel of the step before when it is overwritten.
    Nodes loops;
    for (Node r : order)
      if (is_repeated(r)) loops.push_back(r);
    if (!group_.empty() && !loops.empty()) order.push_back(barrier(loops));
    Node memory = order.empty() ? panel : after(panel, order);
    Node gate;
    for (Node r : group_)
      if (std::find(below.begin(), below.end(), r) == below.end()) {
        Node first = equal(r, index_const(0));
        gate = gate ? logical_and(gate, first) : first;
      }
    Node copy = end(substitute_free(store(memory, index, value, gate), map), copied);
    if (!group_.empty()) copy = barrier({&copy, 1});
    return load(after(panel, {&copy, 1}), index);
  }

 private:
  // A loop of one group; a global range is one only where it stands inside a reduce.
  bool is_repeated(Node r) const {
    RangeKind k = range_kind(r);
    return k == RangeKind::Loop || k == RangeKind::Reduce ||
           (k == RangeKind::Global && range_id(r) > first_reduce_);
  }

  const Target& target_;
  FreshIds ids_;
  Nodes group_;
  std::int64_t bytes_ = 0, first_reduce_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

Node stage_values(Node kernel, std::span<const Staging> stages, const Target& target) {
  if (stages.empty()) return kernel;
  Stager stager(kernel, target);
  for (const Staging& s : stages) {
    if (!s.value || s.value.is_const()) continue;  // folded away: nothing left to copy
    NodeMap<Node> staged;
    staged.try_emplace(s.value, stager.panel_read(s.value, s.position));
    kernel = substitute(kernel, staged);
  }
  return kernel;
}

}  // namespace lathe
