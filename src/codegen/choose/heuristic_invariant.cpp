// LATHE_INVARIANT: options under which a row has the same bits in any batch. How a reduce is divided follows
// from its own extents and the width of a vector, never from what stands around it: even the strides of its
// loads depend on the batch, because it decides whether an operand is stored first and how it lies then. So
// its innermost range is summed in as many parts as a vector has floats (a step of all of them is a UNROLL),
// which are lanes where that is fast and registers elsewhere: expansion combines both alike. Options on
// output ranges change no bits, so they may depend on anything.
#include <algorithm>

#include "codegen/choose/chooser.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Outputs of each of two ranges at a time.
constexpr std::int64_t kTogether = 4;

}  // namespace

// The innermost range of each reduce, where it is whole vectors.
std::vector<std::size_t> Chooser::divided_reduces(std::int64_t parts) const {
  std::vector<std::size_t> out;
  for (Node n : toposort(kernel_)) {
    if (!n.is(Op::Reduce)) continue;
    std::size_t inner = facts_.ranges.size();
    for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
      for (Node closed : closed_ranges(n))
        if (facts_.ranges[r].range == closed) inner = r;
    if (inner == facts_.ranges.size() || facts_.ranges[inner].kind != RangeKind::Reduce) continue;
    if (!splittable(inner) || facts_.ranges[inner].carries_tuple) continue;
    if (facts_.ranges[inner].extent % parts != 0) continue;
    if (std::find(out.begin(), out.end(), inner) == out.end()) out.push_back(inner);
  }
  return out;
}

std::vector<Opt> Chooser::run_invariant() {
  if (target_.reference || facts_.ranges.empty()) return {};
  if (target_.groups) {
    // Neighbouring threads take neighbouring outputs.
    constexpr std::int64_t kThreads = 256;
    std::int64_t room = kThreads;
    for (std::size_t r = facts_.ranges.size(); r-- > 0 && room > 1;) {
      if (!is_output(r) || !splittable(r) || position(r) < 0) continue;
      const std::int64_t here = std::min(left(r), room);
      if (here > 1) add(OptOp::LOCAL, position(r), {here});
      room /= here;
    }
    return std::move(opts_);
  }
  if (take(RuleId::SerialScan)) return std::move(opts_);  // in order, one step after the other
  if (has_vector_units() && take(RuleId::BlockLanes))
    return std::move(opts_);  // integers, the same in any order
  const std::size_t none = facts_.ranges.size();
  // Before all other options, so that nothing of them shows in how often a body may be copied.
  const std::int64_t parts = std::max<std::int64_t>(target_.vector_bytes / 4, 1);
  std::vector<std::size_t> divided;
  if (parts > 1) divided = divided_reduces(parts);
  for (std::size_t r : divided) add(OptOp::UNROLL, reduce_number(r), {parts});
  if (is_one_nest() && uses(RuleId::Streams) && streams_of_rows(divided)) return std::move(opts_);

  std::size_t lane = none;
  double best = 0;
  for (std::size_t r = 0; r < none; ++r) {
    const bool parted = std::find(divided.begin(), divided.end(), r) != divided.end();
    if ((is_output(r) || is_loop(r) || parted) && may_have_lanes(r))
      if (const double g = gain(r); g >= best) best = g, lane = r;
  }
  const bool along_reduce = lane < none && !is_output(lane) && !is_loop(lane);
  const std::int64_t one_vector =
      lane < none ? lane_width(target_, facts_.ranges[lane].extent, facts_.element_bytes, 1) : 1;
  if (lane < none && !along_reduce && divided.empty()) lanes_along(lane);
  if (lane < none && !along_reduce && !divided.empty() && one_vector > 1)
    add(OptOp::UPCAST, position(lane), {one_vector});
  // Outputs share what they read, and one addition need not wait for the one before: two ranges of a few
  // each, as long as their sums are in registers.
  std::int64_t room = std::max<std::int64_t>(target_.vector_registers / 2, kTogether);
  if (!divided.empty() && !along_reduce) room /= parts;
  int taken = 0;
  for (std::size_t r = none; r-- > 0 && taken < 2;) {
    if (facts_.reduces == 0 || r == lane || !is_output(r) || !splittable(r) || position(r) < 0) continue;
    if (left(r) % kTogether != 0 && left(r) < 16) continue;
    const std::int64_t together = std::min(kTogether, room);
    if (together < 2) break;
    add(OptOp::UPCAST, position(r), {together});
    room /= together;
    ++taken;
  }
  std::vector<std::size_t> outputs = output_order();
  if (along_reduce)
    std::stable_sort(outputs.begin(), outputs.end(),
                     [&](std::size_t a, std::size_t b) { return left(a) > left(b); });
  threads(outputs, 4);
  return std::move(opts_);
}

}  // namespace lathe
