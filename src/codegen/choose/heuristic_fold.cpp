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

// Slots of the ring that keys and values are in: more than a tile is not worked on at a time.
constexpr std::int64_t kMostSlots = 3;
// Rows that a group works on: as many warpgroups as have registers for a tile of scores and all outputs.
constexpr std::int64_t kWarpgroups = 2;

std::int64_t panel_bytes(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kRow = 64;  // numbers of 16 bits
  return rows * 2 * ((columns + kRow - 1) / kRow * kRow);
}

// What a unit of several products reads from panels: those that a group has for all tiles, and those of a
// tile.
struct RowPanels {
  std::vector<Node> whole, of_tile;
  std::int64_t whole_bytes = 0, tile_bytes = 0;  // the first of 64 rows
};

// The memory that words of numbers are loaded from, all of them there; else null.
Node whole_source(Node factor) {
  if (!factor.is(Op::Pack) || !factor.arg(0).is(Op::Load) || factor.arg(0).arg_count() > 2) return Node();
  return factor.arg(0).arg(0);
}

RowPanels row_panels(Node kernel, const UnitKernel& unit) {
  RowPanels out;
  std::vector<Node> sources;  // of panels of scores, which products after them read too
  for (std::size_t i = 0; i < unit.row.size(); ++i)
    for (Node n : toposort(kernel)) {
      const UnitKernel::Along& along = unit.row[i];
      if (!n.is(Op::Reduce) || !n.arg(0).is(Op::Dot) || closed_ranges(n)[0] != along.k) continue;
      Node x = n.arg(0).arg(0), y = n.arg(0).arg(1), source = whole_source(y);
      const std::int64_t tile = unit.row[0].unit->n, steps = 2 * along.k.arg(0).hi();
      out.of_tile.push_back(y);
      if (i < unit.scores) {
        out.whole.push_back(x);
        out.whole_bytes += panel_bytes(unit.unit->m, steps);
        out.tile_bytes += panel_bytes(tile, steps);
        if (source) sources.push_back(source);
      } else if (!source || std::find(sources.begin(), sources.end(), source) == sources.end()) {
        out.tile_bytes += panel_bytes(tile, along.unit->n);
      }
    }
  return out;
}

}  // namespace

bool Chooser::group_fold() {
  if (!carries_tuple() || !target_.bulk_copies) return false;
  const std::vector<Node> ranges = all_ranges(kernel_);
  Opt opt{OptOp::TC, 0, {-1, 1, 1}};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    opt.axis = static_cast<int>(i);
    if (range_kind(ranges[i]) != RangeKind::Loop) continue;
    const OrRefusal<UnitKernel> unit = use_paired_unit(kernel_, opt, target_);
    if (!unit) continue;
    for (std::int64_t groups = kWarpgroups; groups > 0; --groups)
      for (std::int64_t slots = kMostSlots; slots > 0; --slots)
        if (try_unit([&] { return paired_unit(*unit, opt, groups, slots); })) return true;
    return false;
  }
  return false;
}

bool Chooser::paired_unit(const UnitKernel& unit, const Opt& opt, std::int64_t groups, std::int64_t slots) {
  OptionState state(kernel_, target_);
  if (!state.takes(opt)) return false;
  const RowPanels panels = row_panels(state.kernel(), unit);
  constexpr std::int64_t kBarriers = 1024;
  if (panels.whole_bytes * groups + panels.tile_bytes * slots + kBarriers > target_.shared_bytes)
    return false;
  KernelFacts facts = kernel_facts(state.kernel());
  become(std::move(state), std::move(facts), opt);
  const int row = state_.loop_position(unit.m);
  const std::int64_t rows = row < 0 ? 1 : state_.axes()[static_cast<std::size_t>(row)].extent.hi();
  if (rows < groups) return false;
  if (groups > 1) add(OptOp::LOCAL, row, {groups});
  int loop = -1;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (facts_.ranges[r].carries_tuple) loop = position(r);
  if (loop < 0) return false;
  for (Node value : panels.whole) add_stage(kBeforeLoops, value, 2);
  for (Node value : panels.of_tile) add_stage(loop, value, 2);
  fill_loop_ = loop;
  fill_slots_ = slots;
  if (fill_slots_ > 1 && !take(RuleId::BulkCopies)) take(RuleId::AsyncCopies);
  return true;
}

}  // namespace lathe
