#include "codegen/choose/stream_options.h"

#include <algorithm>

#include "ir/build.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

// The most streams over small numbers: each has its own sums in registers.
constexpr std::int64_t kMostNarrowStreams = 8;

double bytes_of(const AccessFacts& a) { return a.times * base_memory(a.node.arg(0)).dtype().bytes(); }

// Data that is read repeatedly in step with the streams, once for all of them, relative to what one stream
// reads. Data that stays in L1 does not count.
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

// Whether the access reads each element once, in order.
bool is_sequential(const AccessFacts& a, const KernelFacts& facts) {
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (facts.ranges[r].extent > 1 && (a.strides[r] <= 0 || a.strides[r] == kUneven)) return false;
  return true;
}

// The largest sequential read.
const AccessFacts* main_stream(const KernelFacts& facts) {
  const AccessFacts* main = nullptr;
  for (const AccessFacts& a : facts.accesses)
    if (!a.is_store && !a.gated && base_memory(a.node.arg(0)).is(Op::Param) && is_sequential(a, facts) &&
        (main == nullptr || bytes_of(a) > bytes_of(*main)))
      main = &a;
  return main;
}

// Fills in `lane` and `rows`. Threads and streams divide the slowest axis, so that each stream is one
// contiguous piece of memory.
std::optional<StreamPlan> stream_ranges(const AccessFacts& main, const KernelFacts& facts) {
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

// Whole rows are read in order and added to sums that stay in a quarter of L2. Uses half vectors if they
// divide a row evenly, else the last vector of a row is masked.
void add_rows(StreamPlan& plan, const KernelFacts& facts, const Target& target, std::int64_t lanes) {
  const std::int64_t extent = facts.ranges[plan.lane].extent;
  if (extent % lanes != 0 && lanes % 2 == 0 && extent % (lanes / 2) == 0) plan.width = lanes / 2;
  while (plan.width < 8 * lanes && extent % (2 * plan.width) == 0) plan.width *= 2;
  plan.added = 3 - plan.lane - plan.rows;
  plan.strip = std::max<std::int64_t>(target.l2 / 4 / facts.element_bytes / plan.width, 1);
}

// In a product with small numbers the vector takes more bytes than a matrix row and is read from L2 again in
// each step of the streams. These reads use the same queues as memory, so enough streams share a step that
// the vector is a quarter of what is read, as long as the sums fit the registers, and each stream has a
// longer turn. If rows are short blocks, decoding takes longer than memory.
void share_vector(StreamPlan& plan, const AccessFacts& main, const KernelFacts& facts, const Target& target,
                  std::int64_t lanes) {
  const auto again = static_cast<std::int64_t>(read_again(main, facts, target, plan.lane));
  if (again <= 1 || facts.ranges[plan.lane].kind != RangeKind::Reduce ||
      kMostNarrowStreams * 2 > target.vector_registers)
    return;
  // If a cache line has four vectors or more, a turn is one line, added to one sum vector by vector. That
  // many instructions per line fill the CPU's out-of-order window, so later lines are prefetched.
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

// Whether the kernel also writes something about as large as the main stream.
bool writes_stream(const AccessFacts& main, const KernelFacts& facts) {
  return std::any_of(facts.accesses.begin(), facts.accesses.end(),
                     [&](const AccessFacts& a) { return a.is_store && bytes_of(a) * 4 > bytes_of(main); });
}

// The number of accesses about as large as the main stream, which advance with it; smaller data stays in a
// cache. Nothing if an access is gated or strided along the lanes.
std::optional<std::int64_t> count_streamed(const StreamPlan& plan, const AccessFacts& main,
                                           const KernelFacts& facts) {
  std::int64_t streamed = 0;
  for (const AccessFacts& a : facts.accesses) {
    const std::int64_t along = a.strides[plan.lane];
    if (a.gated || (along != 0 && along != 1)) return std::nullopt;
    streamed += bytes_of(a) * 4 > bytes_of(main);
  }
  return streamed;
}

// Chooses the number of streams, and the vectors of a stream that are read in turn.
void choose_turns(StreamPlan& plan, const KernelFacts& facts, const Target& target, std::int64_t streamed,
                  bool writes, std::int64_t lanes) {
  const std::int64_t extent = facts.ranges[plan.lane].extent;
  // Writes need no prefetcher. A power of two of streams divides the range evenly.
  const std::int64_t most =
      (target.prefetch_streams + (writes ? 2 : 0)) / std::max<std::int64_t>(streamed, 1);
  plan.streams = most >= 4 ? 4 : most >= 2 ? 2 : 1;
  // Two vectors of each stream are in flight, four without a sum. The split of a reduce does not depend on
  // the streams.
  const std::int64_t vectors = facts.reduces == 0 ? 4 : 2;
  if (writes && streamed == 2 && facts.reduces == 0 && extent % (vectors * lanes) == 0) {
    // Memory is fast with contiguous lines, also of four streams, if each has a turn of several vectors:
    // turns of one vector are a fifth slower.
    plan.streams = target.prefetch_streams;
    plan.turn = vectors;
  }
  while (plan.width * plan.turn < vectors * lanes && extent % (2 * plan.width) == 0) plan.width *= 2;
}

// Fills in the length of a stream before all of them move on: as large as L2, or twice that with many
// streams. Long enough that prefetchers seldom restart and memory seldom switches between reading and
// writing, short enough that the streams are close in memory. A thread's whole part may be shorter: some
// pages.
void choose_pieces(StreamPlan& plan, const AccessFacts& main, const KernelFacts& facts, const Target& target,
                   bool writes) {
  constexpr double kPages = 16 * 1024;
  const std::int64_t steps = facts.ranges[plan.rows].extent / (plan.rows == plan.lane ? plan.width : 1);
  const std::int64_t longer = writes ? 1 : std::max<std::int64_t>(plan.streams / target.prefetch_streams, 1);
  const auto steps_of = [&](double bytes) {
    return std::max<std::int64_t>(
        static_cast<std::int64_t>(bytes * static_cast<double>(steps) / bytes_of(main)), 1);
  };
  plan.piece = steps_of(static_cast<double>(target.l2 * longer));
  plan.shortest = steps_of(kPages);
}

}  // namespace

std::optional<StreamPlan> choose_streams(const KernelFacts& facts, const Target& target) {
  for (const RangeFacts& r : facts.ranges)
    if (!r.constant || r.ragged || r.carries_tuple || r.kind == RangeKind::Loop) return std::nullopt;
  const AccessFacts* main = main_stream(facts);
  if (main == nullptr) return std::nullopt;
  std::optional<StreamPlan> found = stream_ranges(*main, facts);
  if (!found) return std::nullopt;
  StreamPlan& plan = *found;
  const bool adds_rows = facts.reduces > 0 && facts.ranges[plan.lane].kind != RangeKind::Reduce;
  // From a cache one stream is as fast as several, and written data takes part of the cache. The weights of a
  // product with a vector, though, are read once in a while, however few they are: others were read since.
  const bool writes = writes_stream(*main, facts), product = facts.factors[0] && !adds_rows;
  const double kept = product && !writes ? static_cast<double>(target.l2)
                                         : static_cast<double>(target.l3) * (writes ? 1 : 0.5);
  if (bytes_of(*main) <= kept) return std::nullopt;
  if (adds_rows && (facts.ranges.size() != 3 || plan.rows == plan.lane || !facts.sums_in_output))
    return std::nullopt;
  const std::optional<std::int64_t> streamed = count_streamed(plan, *main, facts);
  if (!streamed) return std::nullopt;

  const std::int64_t lanes = std::max(target.vector_bytes / facts.element_bytes, 1);
  plan.width = lanes;
  if (adds_rows) {
    add_rows(plan, facts, target, lanes);
    return plan;
  }
  if (facts.ranges[plan.lane].extent % lanes != 0) return std::nullopt;
  choose_turns(plan, facts, target, *streamed, writes, lanes);
  if (*streamed == 1) share_vector(plan, *main, facts, target, lanes);
  choose_pieces(plan, *main, facts, target, writes);
  return plan;
}

}  // namespace lathe
