#include "codegen/choose/stream_options.h"

#include <algorithm>

#include "ir/build.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

// Walks over small numbers at once, at most: each has sums of its own in registers.
constexpr std::int64_t kMostNarrowStreams = 8;

double bytes_of(const AccessFacts& a) { return a.times * base_memory(a.node.arg(0)).dtype().bytes(); }

// What is read in step with the walk again and again, each time for all walks at once, as a multiple of what
// one of them reads. What stays in L1 counts for nothing.
double read_again(const AccessFacts& main, const KernelFacts& facts, const Target& target, std::size_t lane) {
  double again = 0, kept = 0;
  for (const AccessFacts& a : facts.accesses) {
    if (a.is_store || a.strides[lane] == 0 || bytes_of(a) * 4 > bytes_of(main)) continue;
    kept += bytes_of(a);
    again += base_memory(a.node.arg(0)).dtype().bytes();
  }
  if (kept * 2 <= static_cast<double>(target.l1)) return 0;
  return again / base_memory(main.node.arg(0)).dtype().bytes();
}

bool walks(const AccessFacts& a, const KernelFacts& facts) {
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (facts.ranges[r].extent > 1 && (a.strides[r] <= 0 || a.strides[r] == kUneven)) return false;
  return true;
}

// The largest thing read, each element once and in its order.
const AccessFacts* main_walk(const KernelFacts& facts) {
  const AccessFacts* main = nullptr;
  for (const AccessFacts& a : facts.accesses)
    if (!a.is_store && !a.gated && base_memory(a.node.arg(0)).is(Op::Param) && walks(a, facts) &&
        (main == nullptr || bytes_of(a) > bytes_of(*main)))
      main = &a;
  return main;
}

// The ranges along memory and across it. Threads and streams divide the slowest axis, so that each walk is
// one piece of memory.
std::optional<StreamPlan> walked_ranges(const AccessFacts& main, const KernelFacts& facts) {
  StreamPlan plan;
  plan.lane = plan.rows = facts.ranges.size();
  for (std::size_t r = 0; r < facts.ranges.size(); ++r) {
    if (main.strides[r] == 1) plan.lane = r;
    const bool output = facts.ranges[r].kind == RangeKind::Global;
    if (output && (plan.rows == facts.ranges.size() || main.strides[r] > main.strides[plan.rows]))
      plan.rows = r;
  }
  if (plan.lane == facts.ranges.size() || plan.rows == facts.ranges.size()) return std::nullopt;
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (main.strides[r] > main.strides[plan.rows]) return std::nullopt;
  return plan;
}

// Rows are read whole, one after the other, onto sums that stay in a quarter of L2. Half vectors where they
// fit evenly, else the last of a row under a mask.
void add_rows(StreamPlan& plan, const KernelFacts& facts, const Target& target, std::int64_t lanes) {
  const std::int64_t extent = facts.ranges[plan.lane].extent;
  if (extent % lanes != 0 && lanes % 2 == 0 && extent % (lanes / 2) == 0) plan.width = lanes / 2;
  while (plan.width < 8 * lanes && extent % (2 * plan.width) == 0) plan.width *= 2;
  plan.added = 3 - plan.lane - plan.rows;
  plan.strip = std::max<std::int64_t>(target.l2 / 4 / facts.element_bytes / plan.width, 1);
}

// The vector of a product with small numbers is longer than a row of them and comes from L2 again for each
// step of the walks. Its lines stand in the queue for memory too: so many walks share a step that they are a
// quarter of what is read, as long as the sums have registers, and each has a longer turn. Where rows are
// short blocks, decoding takes longer than memory.
void share_vector(StreamPlan& plan, const AccessFacts& main, const KernelFacts& facts, const Target& target,
                  std::int64_t lanes) {
  const auto again = static_cast<std::int64_t>(read_again(main, facts, target, plan.lane));
  if (again <= 1 || facts.ranges[plan.lane].kind != RangeKind::Reduce ||
      kMostNarrowStreams * 2 > target.vector_registers)
    return;
  // Where a line is four vectors or more, it is a turn: one vector after the other onto one sum. So many
  // instructions for a line fill the window in which the CPU looks ahead, so later lines are fetched.
  const int bytes = base_memory(main.node.arg(0)).dtype().bytes();
  const std::int64_t line = kLineBytes / bytes, extent = facts.ranges[plan.lane].extent;
  const bool by_lines = line >= 4 * lanes && extent % line == 0;
  if (by_lines) plan.width = lanes, plan.turn = line / lanes;
  const bool room = kMostNarrowStreams * plan.width * 2 <= target.vector_registers * lanes;
  while (!by_lines && room && plan.turn < std::min(2 * bytes, 4) &&
         extent % (plan.width * plan.turn * 2) == 0)
    plan.turn *= 2;
  if (plan.turn > 1) plan.streams = std::min(kMostNarrowStreams, target.prefetch_streams * again);
  if (by_lines) plan.ahead = target.prefetch_lines;
}

}  // namespace

std::optional<StreamPlan> choose_streams(const KernelFacts& facts, const Target& target) {
  for (const RangeFacts& r : facts.ranges)
    if (!r.constant || r.ragged || r.carries_tuple || r.kind == RangeKind::Loop) return std::nullopt;
  const AccessFacts* main = main_walk(facts);
  if (main == nullptr) return std::nullopt;
  // From a cache one walk is as fast as several; what is written as well takes part of it.
  const bool writes = std::any_of(facts.accesses.begin(), facts.accesses.end(), [&](const AccessFacts& a) {
    return a.is_store && bytes_of(a) * 4 > bytes_of(*main);
  });
  if (bytes_of(*main) <= static_cast<double>(target.l3) * (writes ? 1 : 0.5)) return std::nullopt;
  std::optional<StreamPlan> found = walked_ranges(*main, facts);
  if (!found) return std::nullopt;
  StreamPlan& plan = *found;
  const bool adds_rows = facts.reduces > 0 && facts.ranges[plan.lane].kind != RangeKind::Reduce;
  if (adds_rows && (facts.ranges.size() != 3 || plan.rows == plan.lane || !facts.sums_in_output))
    return std::nullopt;

  // What is as large moves along with it; what is smaller stays in a cache.
  std::int64_t walked = 0;
  for (const AccessFacts& a : facts.accesses) {
    const std::int64_t along = a.strides[plan.lane];
    if (a.gated || (along != 0 && along != 1)) return std::nullopt;
    walked += bytes_of(a) * 4 > bytes_of(*main);
  }
  const std::int64_t lanes = std::max(target.vector_bytes / facts.element_bytes, 1);
  const std::int64_t extent = facts.ranges[plan.lane].extent;
  plan.width = lanes;
  if (adds_rows) {
    add_rows(plan, facts, target, lanes);
    return plan;
  }
  if (extent % lanes != 0) return std::nullopt;
  // What is written needs no prefetcher. A power of two of them divides evenly.
  const std::int64_t most = (target.prefetch_streams + (writes ? 2 : 0)) / std::max<std::int64_t>(walked, 1);
  plan.streams = most >= 4 ? 4 : most >= 2 ? 2 : 1;
  // Two vectors of each are in flight, four where there is no sum. How a reduce is split does not depend on
  // the streams.
  const std::int64_t vectors = facts.reduces == 0 ? 4 : 2;
  if (writes && walked == 2 && facts.reduces == 0 && extent % (vectors * lanes) == 0) {
    // Memory is quick with contiguous lines, of four walks as well, if each has its turn for some
    // of them: one vector of each walk in turn is a fifth slower.
    plan.streams = target.prefetch_streams;
    plan.turn = vectors;
  }
  while (plan.width * plan.turn < vectors * lanes && extent % (2 * plan.width) == 0) plan.width *= 2;
  if (walked == 1) share_vector(plan, *main, facts, target, lanes);
  const std::int64_t steps = facts.ranges[plan.rows].extent / (plan.rows == plan.lane ? plan.width : 1);
  // How long each walk is before all move on: as large as L2, or twice that where there are
  // many walks. Long enough that prefetchers seldom start anew and memory that is written seldom turns from
  // reading to writing and back, short enough that the walks are neighbours in memory.
  const std::int64_t longer = writes ? 1 : std::max<std::int64_t>(plan.streams / target.prefetch_streams, 1);
  const double piece = static_cast<double>(target.l2 * longer);
  plan.piece = std::max<std::int64_t>(
      static_cast<std::int64_t>(piece * static_cast<double>(steps) / bytes_of(*main)), 1);
  return plan;
}

}  // namespace lathe
