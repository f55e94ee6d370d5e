// The rules for targets with groups of threads: tiles of products from panels the group shares, reduces that
// a group shares, and everything else by one thread for each few outputs.
#include <algorithm>

#include "codegen/choose/chooser.h"
#include "codegen/choose/group_tile.h"
#include "codegen/choose/join_sides.h"
#include "codegen/codegen.h"
#include "codegen/options/matrix_unit.h"
#include "ir/group_ops.h"
#include "ir/ranges.h"

namespace lathe {
namespace {

// Threads of a group that shares nothing but its launch.
constexpr std::int64_t kGroup = 256, kSmallGroup = 128;
// Outputs that are too few to give every thread of a large chip one.
constexpr double kFewOutputs = 4096;
// Steps of a shared reduce that a thread takes itself, in wide accesses: several are under way at a time.
constexpr std::int64_t kOwnSteps = 4;

std::int64_t power_below(std::int64_t n) {
  std::int64_t p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

}  // namespace

void Chooser::for_groups() {
  if (!has_rows() && group_product()) return;
  if (group_rows()) return;
  if (!has_rows() && group_reduce()) return;
  if (!has_rows() && group_turn()) return;
  group_outputs();
}

// A copy whose source and result are neighbours along different ranges goes through a panel: the group reads
// pieces of rows of the source and writes pieces of rows of the result.
bool Chooser::group_turn() {
  constexpr std::int64_t kRow = 32, kPieces = 8;
  const std::size_t none = facts_.ranges.size();
  if (!uses("group-turn") || facts_.reduce) return false;
  const AccessFacts *store = nullptr, *load = nullptr;
  for (const AccessFacts& a : facts_.accesses) {
    const AccessFacts*& here = a.is_store ? store : load;
    if (here != nullptr) return false;
    here = &a;
  }
  if (store == nullptr || load == nullptr) return false;
  auto neighbours = [&](const AccessFacts& a) {
    for (std::size_t r = 0; r < none; ++r)
      if (is_output(r) && splittable(r) && a.strides[r] == 1) return r;
    return none;
  };
  const std::size_t to = neighbours(*store), from = neighbours(*load);
  if (to == none || from == none || to == from || facts_.ranges[to].extent < kRow ||
      facts_.ranges[from].extent < kRow)
    return false;
  const std::int64_t piece = target_.max_load_bytes / std::max(load->node.dtype().bytes(), 1);
  if (facts_.ranges[to].extent % piece == 0) add(OptOp::UPCAST, position(to), {piece});
  add(OptOp::LOCAL, position(from), {kRow});
  add(OptOp::LOCAL, position(to), {kPieces});
  int outside = -1;
  for (std::size_t i = 0; i < state_.axes().size(); ++i)
    if (state_.axes()[i].kind == RangeKind::Global) outside = static_cast<int>(i);
  const std::vector<Node> values = stage_values(kernel_);
  add(OptOp::STAGE, outside, {std::find(values.begin(), values.end(), load->node) - values.begin(), 1});
  return true;
}

bool Chooser::group_product() {
  if (!uses("group-product")) return false;
  if (uses("matrix-unit") && uses("panel-products") && uses("joined-sides") &&
      tried([&] { return joined_panel_unit(); }))
    return true;
  std::optional<GroupTile> tile = choose_group_tile(facts_, target_);
  if (tile && facts_.reduces == 1 && group_unit(*tile)) return true;
  // Sides that are too short for a tile by themselves.
  if (!tile)
    return uses("joined-sides") && tried([&] {
             if (!join_product()) return false;
             tile = choose_group_tile(facts_, target_);
             if (tile) group_tile(*tile);
             return tile.has_value();
           });
  group_tile(*tile);
  return true;
}

void Chooser::group_tile(const GroupTile& tile) {
  // The last ranges of threads are neighbours in a warp.
  for (const GroupSide* side : {&tile.rows, &tile.columns}) {
    add(OptOp::UPCAST, position(side->range), {side->near});
    add(OptOp::LOCAL, position(side->range), {side->threads});
    if (side->far > 1 && position(side->range) >= 0) add(OptOp::UPCAST, position(side->range), {side->far});
  }
  for (std::size_t r : tile.outside)
    if (position(r) >= 0 && position(r) > position(tile.reduce)) move(position(r), position(tile.reduce));
  int outside = position(tile.reduce);
  if (tile.steps < left(tile.reduce))
    add(OptOp::TILE, outside, {tile.steps});
  else
    --outside;
  while (outside >= 0 && (state_.axes()[static_cast<std::size_t>(outside)].kind == RangeKind::Local))
    --outside;
  const std::vector<Node> values = stage_values(kernel_);
  for (Node f : facts_.factors)
    add(OptOp::STAGE, outside >= 0 ? outside : kBeforeLoops,
        {std::find(values.begin(), values.end(), f) - values.begin(), 0});
}

bool Chooser::tried(const std::function<bool()>& choose) {
  const Chooser before = *this;
  bool takes = choose();
  try {
    if (takes) apply_options(before.kernel_, opts_, target_);
  } catch (const KernelOptError&) {
    takes = false;
  }
  if (!takes) {
    kernel_ = before.kernel_, facts_ = before.facts_;
    state_ = before.state_, opts_ = before.opts_;
  }
  return takes;
}

// The same on a matrix unit whose fragments threads share: one that reads panels itself, else one of a warp,
// with matrices from swizzled panels or words from panels that lie as their sources do. What a kernel does
// not take is seen when all of its options are there.
bool Chooser::group_unit(const GroupTile& plain) {
  if (!uses("matrix-unit") || target_.units.empty()) return false;
  if (uses("panel-products") && tried([&] { return panel_unit(plain); })) return true;
  if (uses("swizzled-panels") && tried([&] { return warp_unit(plain, true); })) return true;
  return tried([&] { return warp_unit(plain, false); });
}

// TC with each row that fits and reads its operands so.
std::vector<Opt> Chooser::unit_rows(const GroupTile& plain, UnitReads reads) const {
  std::vector<Opt> out;
  const std::vector<Node> ranges = all_ranges(kernel_);
  const auto at =
      std::find(ranges.begin(), ranges.end(), facts_.ranges[plain.columns.range].range) - ranges.begin();
  for (std::size_t row = 0; row < target_.units.size(); ++row) {
    Opt opt{OptOp::TC, static_cast<int>(at), {static_cast<std::int64_t>(row), 1, 1}};
    try {
      const UnitKernel unit = use_matrix_unit(kernel_, opt, target_);
      if (unit.m && unit.unit->threads > 1 && unit.unit->reads == reads) out.push_back(std::move(opt));
    } catch (const KernelOptError&) {
      continue;  // this row does not fit, or there are not so many
    }
  }
  return out;
}

std::optional<Chooser::UnitRanges> Chooser::take_unit(const Opt& opt, std::size_t column) {
  const UnitKernel unit = use_matrix_unit(kernel_, opt, target_);
  OptionState state(kernel_, target_);
  try {
    state.apply(opt);
  } catch (const KernelOptError&) {
    return std::nullopt;
  }
  KernelFacts facts = kernel_facts(state.kernel());
  if (!facts.reduce || !facts.reduce.arg(0).is(Op::Dot)) return std::nullopt;
  UnitRanges on{unit.unit, 0, column, 0, 1};
  while (on.row < facts.ranges.size() && facts.ranges[on.row].range != unit.m) ++on.row;
  while (on.reduce < facts.ranges.size() && facts.ranges[on.reduce].range != unit.k) ++on.reduce;
  if (on.row == facts.ranges.size() || on.reduce == facts.ranges.size()) return std::nullopt;
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (facts.ranges[r].kind == RangeKind::Global && r != on.row && r != column)
      on.batch *= static_cast<double>(facts.ranges[r].extent);
  kernel_ = state.kernel();
  facts_ = std::move(facts);
  state_ = std::move(state);
  opts_.push_back(opt);
  return on;
}

// Both factors at the loop of the reduce that panels hold so many steps of; where that is, or -1.
int Chooser::stage_factors(const UnitRanges& on, std::int64_t steps, std::int64_t layout) {
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (facts_.ranges[r].kind == RangeKind::Reduce && r != on.reduce && position(r) > position(on.reduce))
      move(position(r), position(on.reduce));
  int outside = position(on.reduce);
  if (outside >= 0 && steps > 1 && steps < left(on.reduce))
    add(OptOp::TILE, outside, {steps});
  else if (steps > 1)
    outside = -1;
  const int loop = outside;
  if (outside < 0)
    for (std::size_t i = 0; i < state_.axes().size(); ++i)
      if (state_.axes()[i].kind == RangeKind::Global) outside = static_cast<int>(i);
  const std::vector<Node> values = stage_values(kernel_);
  for (Node f : facts_.factors)
    add(OptOp::STAGE, outside >= 0 ? outside : kBeforeLoops,
        {std::find(values.begin(), values.end(), f) - values.begin(), layout});
  return loop;
}

bool Chooser::panel_unit(const GroupTile& plain) {
  const std::size_t column = plain.columns.range;
  const Chooser before = *this;
  std::optional<PanelTile> best;
  Opt chosen;
  for (const Opt& opt : unit_rows(plain, UnitReads::Panels)) {
    const std::optional<UnitRanges> on = take_unit(opt, column);
    if (on) {
      const PanelTile tile = choose_panel_tile(facts_.ranges[on->row].extent, facts_.ranges[column].extent,
                                               on->batch, *on->unit, target_);
      if (tile.time > 0 && (!best || tile.time < best->time)) best = tile, chosen = opt;
    }
    kernel_ = before.kernel_, facts_ = before.facts_;
    state_ = before.state_, opts_ = before.opts_;
  }
  if (!best) return false;
  const UnitRanges on = *take_unit(chosen, column);
  if (best->fragments > 1) add(OptOp::UPCAST, position(on.row), {best->fragments});
  if (best->warpgroups > 1) add(OptOp::LOCAL, position(on.row), {best->warpgroups});
  const int loop = stage_factors(on, 1, 2);
  if (uses("async-copies") && loop >= 0) add(OptOp::PIPELINE, loop, {best->slots});
  return true;
}

bool Chooser::joined_panel_unit() {
  if (target_.units.empty()) return false;
  const Node columns = join_product();
  if (!columns) return false;
  GroupTile plain;
  while (facts_.ranges[plain.columns.range].range != columns) ++plain.columns.range;
  return panel_unit(plain);
}

// Rows, columns and steps that lie along several ranges become one each; its columns, or null where nothing
// is to be joined.
Node Chooser::join_product() {
  std::optional<JoinedSides> joined = join_sides(kernel_, facts_, target_);
  if (!joined) return Node();
  kernel_ = joined->kernel;
  facts_ = kernel_facts(kernel_);
  state_ = OptionState(kernel_, target_);
  opts_.insert(opts_.end(), joined->joins.begin(), joined->joins.end());
  return joined->columns;
}

bool Chooser::warp_unit(const GroupTile& plain, bool swizzled) {
  std::vector<Opt> rows = unit_rows(plain, UnitReads::Matrices);
  if (rows.empty() && !swizzled) rows = unit_rows(plain, UnitReads::Words);
  if (rows.empty()) return false;
  const std::size_t column = plain.columns.range;
  const std::optional<UnitRanges> on = take_unit(rows[0], column);
  if (!on) return false;
  const WarpTile tile = choose_warp_tile(facts_.ranges[on->row].extent, facts_.ranges[column].extent,
                                         on->batch, *on->unit, target_, swizzled ? kPanelRow : 1);
  auto divide = [&](std::size_t r, std::int64_t registers, std::int64_t warps) {
    if (registers > 1 && position(r) >= 0) add(OptOp::UPCAST, position(r), {registers});
    if (warps > 1 && position(r) >= 0) add(OptOp::LOCAL, position(r), {warps});
  };
  divide(on->row, tile.rows, tile.row_warps);
  divide(on->column, tile.columns, tile.column_warps);
  const int loop = stage_factors(*on, tile.steps, swizzled ? 2 : 1);
  if (swizzled && uses("async-copies") && loop >= 0) {
    const std::int64_t bytes =
        (tile.rows * tile.row_warps * on->unit->m + tile.columns * tile.column_warps * on->unit->n) *
        tile.steps * on->unit->k * 4;
    // The matrices of one step are read among the products of another.
    if (uses("panel-pairs")) add(OptOp::UNROLL, reduce_number(on->reduce) + 1, {2});
    add(OptOp::PIPELINE, loop, {std::clamp<std::int64_t>(target_.core_shared_bytes / 2 / bytes, 2, 4)});
    return true;
  }
  // Two panels' steps at a time: half as many barriers, and one's reads among the other's products. Not below
  // other reduces: the addresses of windows for two steps take the registers that let groups share a core.
  const auto reduces = std::ranges::count_if(
      facts_.ranges, [](const RangeFacts& range) { return range.kind == RangeKind::Reduce; });
  if (uses("panel-pairs") && reduces == 1 && position(on->reduce) >= 0 && left(on->reduce) % 2 == 0)
    add(OptOp::UNROLL, reduce_number(on->reduce), {2});
  return true;
}

// The threads of a group share each output where outputs are few, or where neighbouring steps read
// neighbouring elements and neighbouring outputs do not.
bool Chooser::group_reduce() {
  if (!uses("group-reduce")) return false;
  const std::size_t none = facts_.ranges.size();
  double outputs = 1, steps = 1, best = 0;
  for (std::size_t r = 0; r < none; ++r) {
    (is_output(r) ? outputs : steps) *= static_cast<double>(facts_.ranges[r].extent);
    if (is_output(r) && splittable(r)) best = std::max(best, gain(r));
  }
  const bool few = outputs < kFewOutputs && steps >= static_cast<double>(kGroup);
  std::size_t shared = none;
  for (std::size_t r = 0; r < none; ++r)
    if (facts_.ranges[r].kind == RangeKind::Reduce && !facts_.ranges[r].carries_tuple && splittable(r))
      if ((few && facts_.ranges[r].extent >= target_.warp) || gain(r) > best) shared = r;
  if (shared == none) return false;
  // What is read along it most often.
  const AccessFacts* main = nullptr;
  for (const AccessFacts& a : facts_.accesses)
    if (!a.is_store && a.strides[shared] == 1 && (main == nullptr || a.times > main->times)) main = &a;
  std::int64_t width = 1, pieces = 1;
  std::size_t inner = none;
  const bool together = rows_share_loads();
  if (facts_.ranges[shared].extent < target_.warp) {
    // A short row of neighbours is one thread's, the rows that follow each other in memory are shared. Where
    // wider elements are read along with them, a few threads take a piece of it each, so that those are
    // neighbours in a warp as well.
    constexpr std::int64_t kPiece = 4;
    const std::int64_t row = facts_.ranges[shared].extent;
    inner = shared;
    shared = none;
    for (std::size_t r = 0; r < none && main != nullptr; ++r)
      if (facts_.ranges[r].kind == RangeKind::Reduce && splittable(r) && main->strides[r] == row) shared = r;
    if (shared == none || facts_.ranges[shared].extent < target_.warp) return false;
    if (together && row % kPiece == 0) pieces = row / kPiece;
    add(OptOp::UNROLL, reduce_number(inner), {row / pieces});
  } else if (uses("wide-access") && main != nullptr) {
    width = target_.max_load_bytes / std::max(main->node.dtype().bytes(), 1);
    while (facts_.ranges[shared].extent % width != 0) width /= 2;
  }
  const std::int64_t extent = facts_.ranges[shared].extent;
  const std::int64_t fewest = std::min<std::int64_t>(target_.warp, power_below(extent));
  const std::int64_t threads =
      std::clamp<std::int64_t>(power_below(extent / width / kOwnSteps), fewest, kGroup) / pieces;
  if (width > 1) add(OptOp::UNROLL, reduce_number(shared), {width});
  const std::int64_t rows = kSmallGroup / (threads * pieces);
  for (std::size_t r = none; r-- > 0 && rows > 1;)
    if (is_output(r) && splittable(r) && position(r) >= 0 && left(r) % rows == 0) {
      add(OptOp::LOCAL, position(r), {rows});
      break;
    }
  if (position(shared) >= 0) add(OptOp::GROUP, reduce_number(shared), {threads});
  if (pieces > 1 && position(inner) >= 0) add(OptOp::GROUP, reduce_number(inner), {pieces});
  return true;
}

// Where much more is read again for every output than once for each of them (the vector that small weights
// are multiplied by), neighbouring outputs of one thread share it.
bool Chooser::rows_share_loads() {
  constexpr std::int64_t kTogether = 4;
  if (!uses("rows-together")) return false;
  std::size_t row = facts_.ranges.size();
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r)) row = r;
  if (row == facts_.ranges.size() || !splittable(row) || facts_.ranges[row].extent % kTogether != 0)
    return false;
  const auto rows = static_cast<double>(facts_.ranges[row].extent);
  double once = 0, again = 0;
  for (const AccessFacts& a : facts_.accesses) {
    const double bytes = a.is_store ? 0 : a.times * a.node.dtype().bytes();
    if (a.strides[row] == 0)
      again += bytes * rows;
    else
      once += bytes;
  }
  if (again <= kTogether * once || facts_.extent_product(RangeKind::Global) < kFewOutputs) return false;
  add(OptOp::UPCAST, position(row), {kTogether});
  return true;
}

void Chooser::group_outputs() {
  double outputs = 1;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r)) outputs *= static_cast<double>(facts_.ranges[r].extent);
  std::size_t lane = facts_.ranges.size();
  double best = 0;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r) && splittable(r))
      if (double g = gain(r); lane == facts_.ranges.size() || g >= best) best = g, lane = r;
  if (lane == facts_.ranges.size()) {
    unroll_small_reduces();
    return;
  }
  // Neighbouring elements of a thread make one wide access, where there are threads enough without them.
  int widest = 1;
  for (const AccessFacts& a : facts_.accesses)
    if (a.strides[lane] == 1)
      widest = std::max(widest, a.is_store ? a.node.arg(2).dtype().bytes() : a.node.dtype().bytes());
  constexpr std::int64_t kMostTogether = 8;
  const std::int64_t wide = std::min<std::int64_t>(target_.max_load_bytes / widest, kMostTogether);
  if (uses("wide-access") && best > 0 && outputs >= 1 << 16)
    for (std::int64_t n : {wide, wide / 2})
      if (n > 1 && left(lane) == facts_.ranges[lane].extent && facts_.ranges[lane].extent % n == 0)
        add(OptOp::UPCAST, position(lane), {n});
  unroll_small_reduces();
  // Neighbouring threads take neighbouring elements: whole warps, up to 256 threads.
  std::int64_t threads_here = std::min<std::int64_t>(left(lane), kGroup);
  for (std::int64_t n : {256, 128, 64, 32})
    if (left(lane) % n == 0) {
      threads_here = n;
      break;
    }
  if (position(lane) >= 0 && left(lane) > 1) add(OptOp::LOCAL, position(lane), {threads_here});
  std::int64_t room = kSmallGroup / threads_here;
  for (std::size_t r = facts_.ranges.size(); r-- > 0 && room > 1;) {
    if (r == lane || !is_output(r) || !splittable(r) || position(r) < 0) continue;
    for (std::int64_t n = room; n > 1; n /= 2)
      if (left(r) % n == 0) {
        add(OptOp::LOCAL, position(r), {n});
        room /= n;
        break;
      }
  }
}

}  // namespace lathe
