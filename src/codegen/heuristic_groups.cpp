// The rules for targets with groups of threads: tiles of products from panels the group shares, reduces that
// a group shares, and everything else by one thread for each few outputs.
#include <algorithm>

#include "codegen/chooser.h"
#include "codegen/group_tile.h"

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
  if (!has_rows() && group_reduce()) return;
  group_outputs();
}

bool Chooser::group_product() {
  std::optional<GroupTile> tile;
  if (uses("group-product")) tile = choose_group_tile(facts_, target_);
  if (!tile) return false;
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
  const std::vector<Node> values = stage_values(kernel_);
  for (Node f : facts_.factors)
    add(OptOp::STAGE, outside >= 0 ? outside : kBeforeLoops,
        {std::find(values.begin(), values.end(), f) - values.begin(), 0});
  return true;
}

// The threads of a group share each output where outputs are few, or where neighbouring steps read
// neighbouring elements and neighbouring outputs do not.
bool Chooser::group_reduce() {
  if (!uses("group-reduce")) return false;
  double outputs = 1, steps = 1, best = 0;
  std::size_t shared = facts_.ranges.size();
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r) {
    const RangeFacts& range = facts_.ranges[r];
    (is_output(r) ? outputs : steps) *= static_cast<double>(range.extent);
    if (is_output(r) && splittable(r)) best = std::max(best, gain(r));
  }
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r) {
    const RangeFacts& range = facts_.ranges[r];
    if (range.kind != RangeKind::Reduce || range.carries_tuple || !splittable(r) ||
        range.extent < target_.warp)
      continue;
    const bool few = outputs < kFewOutputs && steps >= static_cast<double>(kGroup);
    if (few || gain(r) > best) shared = r;
  }
  if (shared == facts_.ranges.size()) return false;
  int bytes = 4;  // of what is read along the range most often
  double most = 0;
  for (const AccessFacts& a : facts_.accesses)
    if (!a.is_store && a.strides[shared] == 1 && a.times > most)
      most = a.times, bytes = a.node.dtype().bytes();
  const std::int64_t extent = facts_.ranges[shared].extent;
  std::int64_t width =
      uses("wide-access") && gain(shared) > 0 ? std::min<std::int64_t>(target_.max_load_bytes / bytes, 8) : 1;
  while (extent % width != 0) width /= 2;
  const std::int64_t threads =
      std::clamp<std::int64_t>(power_below(extent / width / kOwnSteps),
                               std::min<std::int64_t>(target_.warp, power_below(extent)), kGroup);
  if (width > 1) add(OptOp::UNROLL, reduce_number(shared), {width});
  const std::int64_t rows = kSmallGroup / threads;
  for (std::size_t r = facts_.ranges.size(); r-- > 0 && rows > 1;)
    if (is_output(r) && splittable(r) && position(r) >= 0 && left(r) % rows == 0) {
      add(OptOp::LOCAL, position(r), {rows});
      break;
    }
  if (position(shared) >= 0) add(OptOp::GROUP, reduce_number(shared), {threads});
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
  // Four elements a thread make one wide access, where there are threads enough without them.
  if (uses("wide-access") && best > 0 && facts_.ranges[lane].extent % 4 == 0 && outputs >= 1 << 16)
    add(OptOp::UPCAST, position(lane), {4});
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
