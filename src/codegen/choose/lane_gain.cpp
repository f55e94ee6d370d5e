#include "codegen/choose/lane_gain.h"

#include <algorithm>
#include <vector>

#include "codegen/kernel/lanes.h"

namespace lathe {

std::int64_t lane_width(const Target& target, std::int64_t extent, int element_bytes, std::int64_t most) {
  const std::int64_t lanes = std::max(target.vector_bytes / element_bytes, 1);
  const std::int64_t power = std::min(lanes, extent & -extent);
  const bool cheap_masks = target.small_masks || element_bytes >= 4;
  if (power * 2 < lanes && !cheap_masks) return power;
  if (power * 2 >= lanes) {
    std::int64_t count = most * lanes / power;
    while (extent % (count * power) != 0) --count;
    return count * power;
  }
  for (std::int64_t v = most; v > 1; v /= 2) {
    const std::int64_t width = v * lanes, idle = (width - extent % width) % width;
    if (idle * 8 <= extent) return width;
  }
  return extent * 2 > lanes ? lanes : power;
}

std::optional<std::size_t> range_between(const KernelFacts& facts, const Target& target, const AccessFacts& a,
                                         std::size_t r) {
  for (std::size_t q = 0; q < facts.ranges.size() && target.vector_bytes > 0; ++q)
    if (facts.ranges[q].kind == RangeKind::Global && can_split(facts.ranges[q]) && a.strides[q] == 1 &&
        a.strides[r] == facts.ranges[q].extent && a.strides[r] <= kMostElementsApart)
      return q;
  return std::nullopt;
}

bool sorts_lanes(const KernelFacts& facts, const Target& target, const AccessFacts& a, std::size_t r) {
  if (target.vector_bytes == 0 || a.strides[r] > kMostElementsApart) return false;
  std::vector<Node> unrolled;
  if (std::optional<std::size_t> q = range_between(facts, target, a, r))
    unrolled.push_back(facts.ranges[*q].range);
  if (a.is_store) return is_woven(a.node, facts.ranges[r].range, unrolled);
  for (const RangeFacts& range : facts.ranges)
    if (range.kind == RangeKind::Reduce && range.extent <= kSmallReduce) unrolled.push_back(range.range);
  return elements_apart(a.node, facts.ranges[r].range, unrolled) > 0;
}

double lane_gain(const KernelFacts& facts, const Target& target, std::size_t r) {
  double score = 0;
  for (const AccessFacts& a : facts.accesses) {
    if (a.strides[r] == 1)
      score += (a.is_store ? 2 : 1) * a.times;
    else if (sorts_lanes(facts, target, a, r))
      score += 0.5 * a.times;
    else if (!a.is_store && masked_apart(a.node, facts.ranges[r].range, target) > 0)
      score += 0.3 * a.times;
    else if (a.strides[r] != 0)
      score -= 2 * a.times;
  }
  return score;
}

}  // namespace lathe
