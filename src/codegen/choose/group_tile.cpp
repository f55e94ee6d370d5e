#include "codegen/choose/group_tile.h"

#include <algorithm>
#include <cmath>

#include "codegen/choose/lane_gain.h"
#include "codegen/kernel/panel_layout.h"
#include "ir/dot.h"
#include "ir/ranges.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

// Registers of a thread beside its sums and what feeds them: addresses, counters, pieces in flight.
constexpr std::int64_t kOtherRegisters = 40;
// How much longer a group takes that no other one computes beside while it copies.
constexpr double kAlone = 1.5;
// Of a warp's reads of a panel, in half all threads want the same.
constexpr double kDifferentReads = 0.5;
// What an element costs that a thread copies into a panel.
constexpr double kCopied = 8;
// Fewer rows or columns than this share too little.
constexpr std::int64_t kFewest = 16;

// A factor's bytes in memory.
int source_bytes(Node factor) {
  Node source = source_load(factor);
  return std::max(source ? source.dtype().bytes() : factor.dtype().bytes(), 1);
}

bool closes(Node reduce, Node range) {
  const std::span<const Node> closed = closed_ranges(reduce);
  return std::find(closed.begin(), closed.end(), range) != closed.end();
}

// Whether all other reduces, if any, are short ones of their own, such as a window's.
bool is_main_reduce(const KernelFacts& facts) {
  constexpr std::int64_t kShort = 16;
  std::int64_t others = 1;
  for (const RangeFacts& r : facts.ranges)
    if (r.kind == RangeKind::Reduce && !closes(facts.reduce, r.range)) others *= r.extent;
  return facts.reduces == 1 || (others > 1 && others <= kShort);
}

struct Sides {
  std::size_t rows, columns, reduce;
  double batch = 1;  // outputs beside rows and columns
};

// The largest range that only one factor depends on, for each; columns are those along which results are
// neighbours in memory.
std::optional<Sides> sides_of(const KernelFacts& facts) {
  const std::size_t none = facts.ranges.size();
  std::size_t side[2] = {none, none}, reduce = none;
  auto larger = [&](std::size_t r, std::size_t than) {
    return than == none || facts.ranges[r].extent > facts.ranges[than].extent;
  };
  auto in_order = [&](std::size_t r) {
    return std::any_of(facts.accesses.begin(), facts.accesses.end(),
                       [&](const AccessFacts& a) { return a.is_store && a.strides[r] == 1; });
  };
  for (std::size_t r = 0; r < none; ++r) {
    if (!can_split(facts.ranges[r]) || facts.ranges[r].carries_tuple) continue;
    const bool x = facts.depends(facts.factors[0], r), y = facts.depends(facts.factors[1], r);
    if (closes(facts.reduce, facts.ranges[r].range) && x && y && larger(r, reduce)) reduce = r;
    if (facts.ranges[r].kind != RangeKind::Global || x == y) continue;
    std::size_t& here = side[x ? 0 : 1];
    const bool better = here == none || in_order(r) || (!in_order(here) && larger(r, here));
    if (better && facts.ranges[r].extent >= kFewest) here = r;
  }
  if (side[0] == none || side[1] == none || reduce == none) return std::nullopt;
  if (in_order(side[0])) std::swap(side[0], side[1]);
  Sides sides{side[0], side[1], reduce, 1};
  for (std::size_t r = 0; r < none; ++r)
    if (facts.ranges[r].kind == RangeKind::Global && r != side[0] && r != side[1])
      sides.batch *= static_cast<double>(facts.ranges[r].extent);
  return sides;
}

// Sums that are added up outside of the unit are there twice.
std::int64_t sums_held(const MatrixUnit& unit) { return adds_outside(unit) ? 2 : 1; }

}  // namespace

bool adds_outside(const MatrixUnit& unit) { return find_dot_kind(unit.dot)->sum_bits > 0; }

WarpTile choose_warp_tile(std::int64_t rows, std::int64_t columns, double batch, const MatrixUnit& unit,
                          const Target& target, std::int64_t whole) {
  constexpr std::int64_t kSteps = 4;
  const GroupRates& rates = target.group_rates;
  const std::int64_t held = sums_held(unit);
  WarpTile best, tile;
  double least = 0;
  tile.steps = kSteps;
  for (tile.rows = 1; tile.rows <= 4; ++tile.rows)
    for (tile.columns = 1; tile.columns <= 8; ++tile.columns)
      for (tile.row_warps = 1; tile.row_warps <= 4; tile.row_warps *= 2)
        for (tile.column_warps = 1; tile.column_warps <= 4; tile.column_warps *= 2) {
          const std::int64_t m = tile.rows * tile.row_warps * unit.m,
                             n = tile.columns * tile.column_warps * unit.n,
                             warps = tile.row_warps * tile.column_warps, threads = warps * unit.threads,
                             registers = held * tile.rows * tile.columns * unit.m * unit.n / unit.threads +
                                         tile.rows * 4 + tile.columns * 2 + kOtherRegisters,
                             panels = (m + n) * (kSteps * unit.k + 8) * 4;
          const std::int64_t most =
              std::min({target.core_threads / threads, target.core_registers / (threads * registers),
                        target.core_shared_bytes / panels});
          if (registers > target.thread_registers || threads > target.max_group || most < 1 ||
              m % whole != 0 || n % whole != 0 ||
              tile.rows * tile.columns + tile.rows + tile.columns > unit.most_lanes)
            continue;
          auto parts = [](std::int64_t extent, std::int64_t size) {
            return std::ceil(static_cast<double>(extent) / static_cast<double>(size));
          };
          const double groups = batch * parts(rows, m) * parts(columns, n),
                       turns = std::ceil(groups / target.cores);
          const double busy =
              static_cast<double>(threads) * std::max(1.0, std::min(turns, static_cast<double>(most)));
          const auto products = static_cast<double>(tile.rows * tile.columns),
                     words = static_cast<double>(tile.rows * 4 + tile.columns * 2);
          const double time = turns * std::max(1.0, target.group_rates.busy_threads / busy) *
                              (std::min(turns, static_cast<double>(most)) < 2 ? kAlone : 1) *
                              (static_cast<double>(warps) * (products + rates.fragment_word * words) +
                               rates.fragment_row * static_cast<double>(m + n) / 4);
          if (least == 0 || time < least) least = time, best = tile;
        }
  return best;
}

PanelTile choose_panel_tile(std::int64_t rows, std::int64_t columns, double batch, const MatrixUnit& unit,
                            const Target& target, bool roles) {
  const GroupRates& rates = target.group_rates;
  constexpr std::int64_t kMostSlots = 8;
  const std::int64_t kMostGroups = roles ? 2 : 3;
  const std::int64_t held = sums_held(unit);
  PanelTile best, tile;
  for (tile.fragments = 1; tile.fragments <= unit.most_lanes; tile.fragments *= 2)
    for (tile.warpgroups = 1; tile.warpgroups <= kMostGroups; ++tile.warpgroups)
      for (tile.slots = 2; tile.slots <= kMostSlots; ++tile.slots) {
        const std::int64_t m = unit.m * tile.fragments * tile.warpgroups, n = unit.n,
                           bytes = (m + n) * unit.k * 4, threads = unit.threads * tile.warpgroups,
                           registers =
                               held * tile.fragments * unit.m * unit.n / unit.threads + kOtherRegisters,
                           alone = roles && tile.warpgroups == 2 ? 1 : kMostSlots,
                           most = std::min({alone, target.core_shared_bytes / (bytes * tile.slots),
                                            target.core_registers / (threads * registers),
                                            target.core_threads / threads});
        if (most < 1 || registers > target.thread_registers) continue;
        auto parts = [](std::int64_t extent, std::int64_t size) {
          return std::ceil(static_cast<double>(extent) / static_cast<double>(size));
        };
        const double groups = batch * parts(rows, m) * parts(columns, n);
        const double together = std::min(static_cast<double>(most), std::ceil(groups / target.cores));
        const double product = static_cast<double>(m * n * unit.k) / rates.panel_words +
                               rates.panel_step / together,
                     copy = static_cast<double>(bytes) /
                            (target.bulk_copies ? rates.bulk_bytes : target.rates.l2),
                     wait = rates.copy_cycles / (static_cast<double>(tile.slots - 1) * together);
        tile.time =
            std::ceil(groups / (target.cores * together)) * together * std::max({product, copy, wait});
        if (best.time == 0 || tile.time <= best.time) best = tile;  // more slots where they cost nothing
      }
  return best;
}

std::optional<GroupTile> choose_group_tile(const KernelFacts& facts, const Target& target) {
  if (!facts.factors[0] || target.warp < 2 || !is_main_reduce(facts)) return std::nullopt;
  const std::optional<Sides> sides = sides_of(facts);
  if (!sides) return std::nullopt;
  const std::int64_t bytes = std::max(facts.factors[0].dtype().bytes(), facts.factors[1].dtype().bytes()),
                     piece =
                         std::max<std::int64_t>(target.max_load_bytes / std::max<std::int64_t>(bytes, 1), 1),
                     narrowest = std::min(source_bytes(facts.factors[0]), source_bytes(facts.factors[1]));
  const std::int64_t rows = facts.ranges[sides->rows].extent, columns = facts.ranges[sides->columns].extent,
                     length = facts.ranges[sides->reduce].extent;
  // What a read of a panel costs beside a multiply-add.
  const double panel_read = kDifferentReads * target.rates.arithmetic / target.rates.l1;
  GroupTile best;
  double least = 0;
  GroupTile tile;
  tile.reduce = sides->reduce;
  tile.steps = std::min(length, std::max<std::int64_t>(kLineBytes / narrowest, 4 * piece));
  tile.rows.range = sides->rows, tile.columns.range = sides->columns;
  tile.rows.near = tile.columns.near = std::min<std::int64_t>(piece, 4);
  for (tile.rows.far = 1; tile.rows.far <= 2; ++tile.rows.far)
    for (tile.columns.far = 1; tile.columns.far <= 2; ++tile.columns.far)
      for (tile.rows.threads = 4; tile.rows.threads <= 16; tile.rows.threads *= 2)
        for (tile.columns.threads = 8; tile.columns.threads <= 16; tile.columns.threads *= 2) {
          const std::int64_t threads = tile.rows.threads * tile.columns.threads,
                             sums = tile.rows.registers() * tile.columns.registers(),
                             feed = tile.rows.registers() + tile.columns.registers(),
                             registers =
                                 (sums + feed) * std::max<std::int64_t>(bytes / 4, 1) + kOtherRegisters,
                             panels = (tile.rows.extent() + tile.columns.extent()) * (tile.steps + 1) * bytes;
          if (threads % target.warp != 0 || threads > target.max_group || panels > target.shared_bytes ||
              registers > target.thread_registers)
            continue;
          const double groups =
              sides->batch * std::ceil(static_cast<double>(rows) / static_cast<double>(tile.rows.extent())) *
              std::ceil(static_cast<double>(columns) / static_cast<double>(tile.columns.extent()));
          const double turns = std::ceil(groups / target.cores);
          const double most = static_cast<double>(
              std::min({target.core_threads / threads, target.core_registers / (threads * registers),
                        target.core_shared_bytes / std::max<std::int64_t>(panels, 1)}));
          const double busy = static_cast<double>(threads) * std::max(1.0, std::min(turns, most));
          const double copied = static_cast<double>(tile.rows.extent() + tile.columns.extent());
          const double time = turns * std::max(1.0, target.group_rates.busy_threads / busy) *
                              (std::min(turns, most) < 2 ? kAlone : 1) *
                              (static_cast<double>(threads) *
                                   (static_cast<double>(sums) + panel_read * static_cast<double>(feed)) +
                               kCopied * copied);
          if (least == 0 || time < least) least = time, best = tile;
        }
  if (least == 0) return std::nullopt;
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (closes(facts.reduce, facts.ranges[r].range) && r != sides->reduce) best.outside.push_back(r);
  return best;
}

}  // namespace lathe
