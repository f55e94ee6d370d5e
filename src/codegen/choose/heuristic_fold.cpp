// Attention on targets with groups of threads: both products on a matrix unit that reads panels, the weights
// between them in registers (options/paired_unit.h).
#include <algorithm>

#include "codegen/choose/chooser.h"
#include "codegen/options/paired_unit.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Slots of the ring that keys and values lie in: more than a tile is not worked on at a time.
constexpr std::int64_t kMostSlots = 3;
// Rows that a group works on: as many warpgroups as have registers for a tile of scores and all outputs.
constexpr std::int64_t kWarpgroups = 2;

std::int64_t panel_bytes(std::int64_t rows, Node columns) {
  constexpr std::int64_t kRow = 64;  // numbers of 16 bits
  return rows * 2 * ((columns.arg(0).hi() + kRow - 1) / kRow * kRow);
}

}  // namespace

bool Chooser::group_fold() {
  if (!carries_tuple() || !target_.bulk_copies) return false;
  return try_unit([&] { return paired_unit(); });
}

bool Chooser::paired_unit() {
  const std::vector<Node> ranges = all_ranges(kernel_);
  Opt opt{OptOp::TC, 0, {-1, 1, 1}};
  std::optional<UnitKernel> unit;
  for (std::size_t i = 0; i < ranges.size() && !unit; ++i) {
    opt.axis = static_cast<int>(i);
    if (range_kind(ranges[i]) != RangeKind::Loop) continue;
    const OrRefusal<UnitKernel> made = use_paired_unit(kernel_, opt, target_);
    if (made) unit = *made;
  }
  OptionState state(kernel_, target_);
  if (!unit || !state.takes(opt)) return false;
  std::int64_t bytes = 0;  // of the rows, and of a tile of keys and values
  const std::int64_t tile = unit->first.unit->n;
  Node rows, keys, values;
  for (Node n : toposort(state.kernel())) {
    if (!n.is(Op::Reduce) || !n.arg(0).is(Op::Dot)) continue;
    Node dot = n.arg(0);
    if (depends_on(dot, unit->first.n))
      rows = dot.arg(0), keys = dot.arg(1), bytes += tile * 4 * ((unit->first.k.arg(0).hi() + 31) / 32 * 32);
    else
      values = dot.arg(1), bytes += panel_bytes(tile, unit->n);
  }
  if (!rows || !keys || !values) return false;
  KernelFacts facts = kernel_facts(state.kernel());
  become(std::move(state), std::move(facts), opt);
  const int row = state_.loop_position(unit->m);
  std::int64_t own = unit->unit->m * 4 * ((unit->first.k.arg(0).hi() + 31) / 32 * 32);
  if (row >= 0 && state_.axes()[static_cast<std::size_t>(row)].extent.hi() >= kWarpgroups) {
    add(OptOp::LOCAL, row, {kWarpgroups});
    own *= kWarpgroups;
  }
  int loop = -1;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (facts_.ranges[r].carries_tuple) loop = position(r);
  if (loop < 0) return false;
  add_stage(kBeforeLoops, rows, 2);
  add_stage(loop, keys, 2);
  add_stage(loop, values, 2);
  fill_loop_ = loop;
  fill_slots_ = std::min((target_.shared_bytes - own - 1024) / bytes, kMostSlots);
  if (fill_slots_ > 1 && !take(RuleId::BulkCopies)) take(RuleId::AsyncCopies);
  return fill_slots_ > 0;
}

}  // namespace lathe
