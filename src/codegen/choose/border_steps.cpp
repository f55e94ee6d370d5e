#include "codegen/choose/border_steps.h"

#include <algorithm>
#include <vector>

#include "codegen/kernel/panel_layout.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/ranges.h"

namespace lathe {
namespace {

// Of all steps, so many have to be left out to be worth copies of the loop's body.
constexpr double kWorthCopies = 0.1;
// Windows that have no loop, and the loop inside that must be left.
constexpr std::int64_t kMostSteps = 9, kLeastInside = 8;

// Which of the conditions depend on these two ranges alone.
std::vector<Node> about(const std::vector<Node>& conditions, Node row, Node window) {
  std::vector<Node> out;
  for (Node c : conditions) {
    const std::span<const Node> ranges = ranges_of(c);
    auto known = [&](Node r) { return r == row || r == window; };
    if (ranges.size() == 2 && std::all_of(ranges.begin(), ranges.end(), known)) out.push_back(c);
  }
  return out;
}

// How many of all pairs of steps the conditions leave.
double share_left(const std::vector<Node>& conditions, Node row, Node window) {
  const std::int64_t rows = row.arg(0).const_int(), steps = window.arg(0).const_int();
  std::int64_t left = 0;
  for (std::int64_t x = 0; x < rows; ++x)
    for (std::int64_t k = 0; k < steps; ++k) {
      NodeMap<Node> at;
      at[row] = index_const(x);
      at[window] = index_const(k);
      left += std::none_of(conditions.begin(), conditions.end(),
                           [&](Node c) { return substitute_free(c, at).hi() == 0; });
    }
  return static_cast<double>(left) / static_cast<double>(rows * steps);
}

// Conditions on other ranges are tested outside the loops only where a long enough one is left inside.
bool tested_outside(const KernelFacts& facts, const std::vector<Node>& conditions,
                    const std::vector<Node>& here, std::size_t window) {
  std::size_t inside = facts.ranges.size();
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (r != window && facts.ranges[r].kind == RangeKind::Reduce) inside = r;
  if (inside == facts.ranges.size() || !facts.ranges[inside].constant ||
      facts.ranges[inside].extent < kLeastInside)
    return false;
  return std::all_of(conditions.begin(), conditions.end(), [&](Node c) {
    return std::find(here.begin(), here.end(), c) != here.end() ||
           (!depends_on(c, facts.ranges[inside].range) && !depends_on(c, facts.ranges[window].range));
  });
}

}  // namespace

std::optional<BorderSteps> choose_border_steps(const KernelFacts& facts, const Target& target,
                                               const ProductTile& tile) {
  if (!tile.panel || tile.lanes_reduce || tile.fragments) return std::nullopt;
  const Node vectors_of = facts.factors[tile.factor], repeated = facts.factors[1 - tile.factor];
  const Node pixel = source_load(repeated);
  if (!pixel || pixel.arg_count() < 3) return std::nullopt;
  std::vector<Node> conditions;
  for_each_conjunct(pixel.arg(2), [&](Node c) { conditions.push_back(c); });

  const std::int64_t lanes = std::max(target.vector_bytes / facts.reduce.dtype().bytes(), 1);
  const std::int64_t extent = facts.ranges[tile.lane_range].extent;
  double depth = facts.reduce.dtype().bytes();
  for (const RangeFacts& r : facts.ranges)
    if (r.kind == RangeKind::Reduce) depth *= static_cast<double>(r.extent);
  auto whole = [&](std::size_t r, RangeKind kind) {
    const RangeFacts& f = facts.ranges[r];
    return f.kind == kind && f.constant && !f.ragged && !f.carries_tuple && f.extent > 1;
  };
  // Inner ranges first: elements along them are contiguous.
  for (std::size_t row = facts.ranges.size(); row-- > 0;) {
    if (!whole(row, RangeKind::Global) || !facts.depends(repeated, row) || facts.depends(vectors_of, row) ||
        facts.ranges[row].extent > target.vector_registers)
      continue;
    for (std::size_t window = facts.ranges.size(); window-- > 0;) {
      if (!whole(window, RangeKind::Reduce) || facts.ranges[window].extent > kMostSteps) continue;
      const std::vector<Node> here = about(conditions, facts.ranges[row].range, facts.ranges[window].range);
      if (here.empty() || !tested_outside(facts, conditions, here, window)) continue;
      if (share_left(here, facts.ranges[row].range, facts.ranges[window].range) > 1 - kWorthCopies) continue;
      // The sums, the vectors of all steps of the window, and a repeated element; the panel of a step of
      // lanes in half of L2.
      for (std::int64_t vectors = 4; vectors >= 1; --vectors) {
        const std::int64_t sums = facts.ranges[row].extent * vectors, width = vectors * lanes;
        if (sums + facts.ranges[window].extent * vectors + 1 > target.vector_registers) continue;
        if (sums < target.sums_in_flight || extent % width != 0) continue;
        if (depth * static_cast<double>(width) * 2 > static_cast<double>(target.l2)) continue;
        return BorderSteps{row, window, width};
      }
    }
  }
  return std::nullopt;
}

}  // namespace lathe
