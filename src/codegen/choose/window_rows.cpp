#include "codegen/choose/window_rows.h"

#include <algorithm>
#include <bit>

#include "codegen/choose/lane_gain.h"
#include "codegen/kernel/lanes.h"

namespace lathe {
namespace {

// More steps than this keep their loop; more rows than this gain little.
constexpr std::int64_t kMostSteps = 16, kMostRows = 16;
// Of vectors, in the body of the loop that is left.
constexpr std::int64_t kMostProducts = 144;

bool taken(const RangeFacts& r, RangeKind kind) { return r.kind == kind && can_split(r) && !r.carries_tuple; }

// Whether rows that are steps of `row` apart and steps of `window` meet.
bool overlap(std::int64_t row, std::int64_t window, std::int64_t steps) {
  if (row <= 0 || window <= 0 || row == kUneven || window == kUneven) return false;
  return row % window == 0 ? row / window < steps : window % row == 0 && window / row < kMostRows / 2;
}

// As many as the registers hold beside a window's worth of the other factor, evenly where that costs few.
std::int64_t rows_together(std::int64_t extent, std::int64_t most) {
  most = std::min({extent, kMostRows, most});
  for (std::int64_t rows = most; rows > 0 && rows * 2 > most; --rows)
    if (extent % rows == 0) return rows;
  if (most < 2) return 1;
  const std::int64_t turns = (extent + most - 1) / most;
  return (extent + turns - 1) / turns;
}

// One vector of lanes; a shorter row as a whole. Lanes that are taken one by one have a mask at the row's end
// that costs more than shorter vectors do.
std::int64_t row_width(std::int64_t extent, std::int64_t lanes, bool one_by_one) {
  const auto all = static_cast<std::uint64_t>(extent);
  return std::min(lanes, static_cast<std::int64_t>(one_by_one ? all & -all : std::bit_ceil(all)));
}

}  // namespace

std::optional<WindowRows> choose_window_rows(const KernelFacts& facts, const Target& target) {
  const std::int64_t lanes = std::max(target.vector_bytes / std::max(facts.element_bytes, 1), 1);
  for (const AccessFacts& a : facts.accesses) {
    if (a.is_store) continue;
    for (std::size_t lane = facts.ranges.size(); lane-- > 0;) {
      const std::int64_t apart = a.strides[lane];
      if (!taken(facts.ranges[lane], RangeKind::Global) || apart < 1 || apart > kMostElementsApart) continue;
      WindowRows plan;
      plan.lane = lane;
      const bool one_by_one = apart > 1 && masked_apart(a.node, facts.ranges[lane].range, target) == 0;
      plan.width = row_width(facts.ranges[lane].extent, lanes, one_by_one);
      const std::int64_t filled = std::min(facts.ranges[lane].extent, plan.width);
      if (filled * 4 < lanes && apart > 1) continue;
      std::int64_t across = 1;
      for (std::size_t w = 0; w < facts.ranges.size() && apart > 1; ++w)
        if (taken(facts.ranges[w], RangeKind::Reduce) && a.strides[w] > 0 && a.strides[w] < apart &&
            facts.ranges[w].extent <= kMostSteps)
          plan.across = w, across = facts.ranges[w].extent;
      for (std::size_t row = lane; row-- > 0;)
        for (std::size_t window = facts.ranges.size(); window-- > 0;) {
          const RangeFacts &r = facts.ranges[row], &w = facts.ranges[window];
          if (!taken(r, RangeKind::Global) || !taken(w, RangeKind::Reduce) || w.extent > kMostSteps) continue;
          if (window == plan.across || !overlap(a.strides[row], a.strides[window], w.extent)) continue;
          const std::int64_t registers = target.vector_registers - w.extent - 2;
          plan.row = row, plan.window = window;
          plan.rows = rows_together(r.extent, std::min(registers, kMostProducts / (w.extent * across)));
          if (plan.rows >= 2) return plan;
        }
    }
  }
  return std::nullopt;
}

}  // namespace lathe
