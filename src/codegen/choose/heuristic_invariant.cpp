// LATHE_INVARIANT: options under which a row has the same bits in any batch. A reduce is never split, so its
// elements are combined one after the other in the order of its ranges, whatever stands around it: even the
// strides of its loads depend on the batch, because it decides whether an operand is stored first and how it
// lies then. Options on output ranges change no bits, so they may depend on anything.
#include <algorithm>

#include "codegen/choose/chooser.h"

namespace lathe {

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
  if (take(RuleId::WalkInOrder)) return std::move(opts_);  // in order, one step after the other
  const std::size_t none = facts_.ranges.size();
  std::size_t lane = none;
  double best = 0;
  for (std::size_t r = 0; r < none; ++r)
    if ((is_output(r) || is_loop(r)) && may_have_lanes(r))
      if (const double g = gain(r); g >= best) best = g, lane = r;
  if (lane < none) lanes_along(lane);
  // Outputs share what they read, and one addition need not wait for the one before: two ranges of a few
  // each.
  int taken = 0;
  for (std::size_t r = none; r-- > 0 && taken < 2;) {
    if (facts_.reduces == 0 || r == lane || !is_output(r) || !splittable(r) || position(r) < 0) continue;
    if (left(r) % 4 != 0 && left(r) < 16) continue;
    add(OptOp::UPCAST, position(r), {4});
    ++taken;
  }
  threads(output_order(), 4);
  return std::move(opts_);
}

}  // namespace lathe
