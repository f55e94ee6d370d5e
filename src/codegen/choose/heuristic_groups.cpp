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
#include "ir/walk.h"

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

bool Chooser::group_product() {
  if (take(RuleId::JoinedUnit)) return true;
  group_tile_ = choose_group_tile(facts_, target_);
  if (!group_tile_) return take(RuleId::JoinedSides);
  if (facts_.reduces == 1 && take(RuleId::GroupUnit)) return true;
  divide_group_tile();
  return true;
}

// Rows, columns and steps that lie along several ranges become one each; its columns, or null where nothing
// is to be joined.
Node Chooser::join_product() {
  const std::optional<JoinedSides> joined = join_sides(kernel_, facts_, target_);
  if (!joined) return Node();
  kernel_ = joined->kernel;
  facts_ = kernel_facts(kernel_);
  state_ = OptionState(kernel_, target_);
  opts_.insert(opts_.end(), joined->joins.begin(), joined->joins.end());
  return joined->columns;
}

bool Chooser::joined_unit() {
  return try_unit([&] {
    const Node columns = join_product();
    if (!columns) return false;
    group_tile_.emplace();
    std::size_t& column = group_tile_->columns.range;
    while (facts_.ranges[column].range != columns) ++column;
    // Not as a rule of its own: whether the list fits shows on the kernel whose ranges it joins.
    return uses(RuleId::PanelProducts) && panel_tile();
  });
}

// Sides that are too short for a tile by themselves.
bool Chooser::joined_tile() {
  return try_unit([&] {
    if (!join_product()) return false;
    group_tile_ = choose_group_tile(facts_, target_);
    if (group_tile_) divide_group_tile();
    return group_tile_.has_value();
  });
}

void Chooser::divide_group_tile() {
  const GroupTile* tile = &*group_tile_;
  // The last ranges of threads are neighbours in a warp.
  for (const GroupSide* side : {&tile->rows, &tile->columns}) {
    add(OptOp::UPCAST, position(side->range), {side->near});
    add(OptOp::LOCAL, position(side->range), {side->threads});
    if (side->far > 1 && position(side->range) >= 0) add(OptOp::UPCAST, position(side->range), {side->far});
  }
  for (std::size_t r : tile->outside)
    if (position(r) >= 0 && position(r) > position(tile->reduce)) move(position(r), position(tile->reduce));
  int outside = position(tile->reduce);
  if (tile->steps < left(tile->reduce))
    add(OptOp::TILE, outside, {tile->steps});
  else
    --outside;
  while (outside >= 0 && (state_.axes()[static_cast<std::size_t>(outside)].kind == RangeKind::Local))
    --outside;
  for (Node f : facts_.factors) add_stage(outside >= 0 ? outside : kBeforeLoops, f, 0);
}

// A copy whose source and result are neighbours along different ranges goes through a panel: the group reads
// pieces of rows of the source and writes pieces of rows of the result.
bool Chooser::group_turn() {
  constexpr std::int64_t kRow = 32, kPieces = 8;
  const std::size_t none = facts_.ranges.size();
  if (facts_.reduce) return false;
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
  add_stage(outside, load->node, 1);
  return true;
}

// The same on a matrix unit whose fragments threads share: one that reads panels itself, else one of a warp,
// with matrices from swizzled panels or words from panels that lie as their sources do.
bool Chooser::group_unit() {
  return take(RuleId::PanelProducts) || take(RuleId::SwizzledPanels) ||
         try_unit([&] { return warp_unit(false); });
}

bool Chooser::takes(Node kernel) const { return static_cast<bool>(try_options(kernel, opts_, target_)); }

void Chooser::restore(const Chooser& before) {
  kernel_ = before.kernel_, facts_ = before.facts_;
  state_ = before.state_, opts_ = before.opts_;
}

// TC with each row that fits and reads its operands so.
std::vector<Opt> Chooser::unit_rows(UnitReads reads) const {
  std::vector<Opt> out;
  const std::vector<Node> ranges = all_ranges(kernel_);
  const auto at = std::find(ranges.begin(), ranges.end(), facts_.ranges[group_tile_->columns.range].range) -
                  ranges.begin();
  for (std::size_t row = 0; row < target_.units.size(); ++row) {
    Opt opt{OptOp::TC, static_cast<int>(at), {static_cast<std::int64_t>(row), 1, 1}};
    // A row that is refused does not fit, or there are not so many.
    const OrRefusal<UnitKernel> unit = use_matrix_unit(kernel_, opt, target_);
    if (unit && unit->m && unit->unit->threads > 1 && unit->unit->reads == reads)
      out.push_back(std::move(opt));
  }
  return out;
}

std::optional<Chooser::UnitRanges> Chooser::take_unit(const Opt& opt) {
  const std::size_t column = group_tile_->columns.range;
  const OrRefusal<UnitKernel> unit = use_matrix_unit(kernel_, opt, target_);
  OptionState state(kernel_, target_);
  if (!unit || !state.takes(opt)) return std::nullopt;
  KernelFacts facts = kernel_facts(state.kernel());
  if (!facts.reduce || !facts.reduce.arg(0).is(Op::Dot)) return std::nullopt;
  UnitRanges on{unit->unit, 0, column, 0, 1};
  while (on.row < facts.ranges.size() && facts.ranges[on.row].range != unit->m) ++on.row;
  while (on.reduce < facts.ranges.size() && facts.ranges[on.reduce].range != unit->k) ++on.reduce;
  if (on.row == facts.ranges.size() || on.reduce == facts.ranges.size()) return std::nullopt;
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (facts.ranges[r].kind == RangeKind::Global && r != on.row && r != column)
      on.batch *= static_cast<double>(facts.ranges[r].extent);
  become(std::move(state), std::move(facts), opt);
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
  for (Node f : facts_.factors) add_stage(outside >= 0 ? outside : kBeforeLoops, f, layout);
  return loop;
}

bool Chooser::panel_tile() {
  const std::size_t column = group_tile_->columns.range;
  const Chooser before = *this;
  std::optional<PanelTile> best;
  Opt chosen;
  for (const Opt& opt : unit_rows(UnitReads::Panels)) {
    const std::optional<UnitRanges> on = take_unit(opt);
    if (on) {
      const PanelTile tile =
          choose_panel_tile(facts_.ranges[on->row].extent, facts_.ranges[column].extent, on->batch, *on->unit,
                            target_, uses(RuleId::ProducerWarps) && adds_outside(*on->unit));
      if (tile.time > 0 && (!best || tile.time < best->time)) best = tile, chosen = opt;
    }
    restore(before);
  }
  if (!best) return false;
  const UnitRanges on = *take_unit(chosen);
  if (best->fragments > 1) add(OptOp::UPCAST, position(on.row), {best->fragments});
  if (best->warpgroups > 1) add(OptOp::LOCAL, position(on.row), {best->warpgroups});
  fill_loop_ = stage_factors(on, 1, 2);
  fill_slots_ = best->slots;
  // Additions of some warps then run beside products of others; where there are none, nothing is gained.
  roles_pay_ = best->warpgroups == 2 && adds_outside(*on.unit);
  if (!take(RuleId::ProducerWarps) && !take(RuleId::BulkCopies)) take(RuleId::AsyncCopies);
  rows_of_groups_ = on.row, columns_of_groups_ = column;
  take(RuleId::GroupOrder);
  return true;
}

bool Chooser::fill_ahead() {
  add(OptOp::PIPELINE, fill_loop_, {fill_slots_});
  return true;
}

bool Chooser::fill_by_roles() {
  add(OptOp::PIPELINE, fill_loop_, {fill_slots_, 2});
  return true;
}

bool Chooser::fill_in_bulk() {
  add(OptOp::PIPELINE, fill_loop_, {fill_slots_, 1});
  return true;
}

// Groups that run at the same time read as few rows and columns as they can from memory: a block of columns
// beside all rows, then the next block.
bool Chooser::order_groups() {
  constexpr std::int64_t kBlock = 8;
  const std::size_t row = rows_of_groups_, column = columns_of_groups_;
  if (position(row) < 0 || position(column) < 0 || left(row) * left(column) <= target_.cores) return false;
  const std::size_t inner = position(row) < position(column) ? column : row,
                    outer = inner == row ? column : row;
  if (left(inner) <= kBlock || left(inner) % kBlock != 0) return false;
  add(OptOp::TILE, position(inner), {kBlock, position(outer)});
  return true;
}

bool Chooser::warp_unit(bool swizzled) {
  std::vector<Opt> rows = unit_rows(UnitReads::Matrices);
  if (rows.empty() && !swizzled) rows = unit_rows(UnitReads::Words);
  if (rows.empty()) return false;
  const std::size_t column = group_tile_->columns.range;
  const std::optional<UnitRanges> on = take_unit(rows[0]);
  if (!on) return false;
  const WarpTile tile = choose_warp_tile(facts_.ranges[on->row].extent, facts_.ranges[column].extent,
                                         on->batch, *on->unit, target_, swizzled ? panel_row(2) : 1);
  auto divide = [&](std::size_t r, std::int64_t registers, std::int64_t warps) {
    if (registers > 1 && position(r) >= 0) add(OptOp::UPCAST, position(r), {registers});
    if (warps > 1 && position(r) >= 0) add(OptOp::LOCAL, position(r), {warps});
  };
  divide(on->row, tile.rows, tile.row_warps);
  divide(on->column, tile.columns, tile.column_warps);
  fill_loop_ = stage_factors(*on, tile.steps, swizzled ? 2 : 1);
  if (swizzled && fills_in_loop() && uses(RuleId::AsyncCopies)) {
    const std::int64_t bytes =
        (tile.rows * tile.row_warps * on->unit->m + tile.columns * tile.column_warps * on->unit->n) *
        tile.steps * on->unit->k * 4;
    // The matrices of one step are read among the products of another.
    pair_reduce_ = reduce_number(on->reduce) + 1;
    take(RuleId::PanelPairs);
    fill_slots_ = std::clamp<std::int64_t>(target_.core_shared_bytes / 2 / bytes, 2, 4);
    return take(RuleId::AsyncCopies);
  }
  // Two panels' steps at a time: half as many barriers, and one's reads among the other's products. Not below
  // other reduces: the addresses of windows for two steps take the registers that let groups share a core.
  const auto reduces = std::ranges::count_if(
      facts_.ranges, [](const RangeFacts& range) { return range.kind == RangeKind::Reduce; });
  pair_reduce_ = reduce_number(on->reduce);
  if (reduces == 1 && position(on->reduce) >= 0 && left(on->reduce) % 2 == 0) take(RuleId::PanelPairs);
  return true;
}

bool Chooser::pair_steps() {
  add(OptOp::UNROLL, pair_reduce_, {2});
  return true;
}

// The threads of a group share each output where outputs are few, or where neighbouring steps read
// neighbouring elements and neighbouring outputs do not.
bool Chooser::group_reduce() {
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
  const bool together = take(RuleId::OutputsTogether);
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
  } else if (main != nullptr) {
    width = wide_access(main->node.dtype().bytes());
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
bool Chooser::outputs_together() {
  constexpr std::int64_t kTogether = 4;
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

std::int64_t Chooser::wide_access(int bytes) {
  access_bytes_ = std::max(bytes, 1);
  return take(RuleId::WideAccess) ? width_ : 1;
}

bool Chooser::widen_access() {
  width_ = target_.max_load_bytes / access_bytes_;
  return true;
}

bool Chooser::group_outputs() {
  double outputs = 1;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r)) outputs *= static_cast<double>(facts_.ranges[r].extent);
  std::size_t lane = facts_.ranges.size();
  double best = 0;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r) && splittable(r))
      if (double g = gain(r); lane == facts_.ranges.size() || g >= best) best = g, lane = r;
  if (lane == facts_.ranges.size()) {
    take(RuleId::UnrollSmallReduces);
    return true;
  }
  // Neighbouring elements of a thread make one wide access, where there are threads enough without them.
  int widest = 1;
  for (const AccessFacts& a : facts_.accesses)
    if (a.strides[lane] == 1)
      widest = std::max(widest, a.is_store ? a.node.arg(2).dtype().bytes() : a.node.dtype().bytes());
  constexpr std::int64_t kMostTogether = 8;
  const std::int64_t wide = std::min(wide_access(widest), kMostTogether);
  double owners = outputs;  // threads that have outputs of their own
  if (best > 0 && outputs >= 1 << 16)
    for (std::int64_t n : {wide, wide / 2})
      if (n > 1 && left(lane) == facts_.ranges[lane].extent && facts_.ranges[lane].extent % n == 0) {
        add(OptOp::UPCAST, position(lane), {n});
        owners /= static_cast<double>(n);
      }
  take(RuleId::UnrollSmallReduces);
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
  share_reduce(owners, std::max(threads_here, kSmallGroup));
  return true;
}

// Outputs that are too few for the chip, each a long reduce: several groups' worth of threads take parts of
// it, and neighbours among the threads still read neighbours. Of a reduce whose length is known at the launch
// only (the keys of a cache) the most it can be counts.
void Chooser::share_reduce(double owners, std::int64_t group) {
  constexpr std::int64_t kUnknownParts = 8, kMostParts = 16;
  constexpr double kStepsLeft = 32;  // of a thread: below, adding up the parts is no small part of the work
  const double wanted = 0.5 * static_cast<double>(target_.cores * target_.core_threads);
  double steps = 1;
  std::size_t longest = facts_.ranges.size();
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r) {
    const RangeFacts& range = facts_.ranges[r];
    if (range.kind != RangeKind::Reduce) continue;
    if (range.ragged || range.carries_tuple) return;
    steps *= static_cast<double>(range.extent);
    if (longest == facts_.ranges.size() || range.extent > facts_.ranges[longest].extent) longest = r;
  }
  if (longest == facts_.ranges.size()) return;
  const RangeFacts& range = facts_.ranges[longest];
  for (Node n : toposort(kernel_)) {
    if (!n.is(Op::Reduce)) continue;
    const std::span<const Node> closed = closed_ranges(n);
    if (std::ranges::find(closed, range.range) == closed.end()) return;  // it would be done by every thread
  }
  if (!range.constant) {
    if (owners < kFewOutputs && range.extent >= kGroup)
      add(OptOp::GROUP, reduce_number(longest), {kUnknownParts});
    return;
  }
  const std::int64_t most = std::min(kMostParts, target_.max_group / group);
  std::int64_t parts = 1;
  while (2 * parts <= most && range.extent % (2 * parts) == 0 &&
         owners * static_cast<double>(2 * parts) <= wanted &&
         steps >= kStepsLeft * static_cast<double>(2 * parts))
    parts *= 2;
  if (parts > 1 && position(longest) >= 0) add(OptOp::GROUP, reduce_number(longest), {parts});
}

}  // namespace lathe
