// The values that a kernel will store for given inputs, computed by REF before it runs: all of them if that
// is cheap enough, else at corners, next to the edges of common tiles and at random positions. Also compares
// them with what a device stored.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/bounded.h"
#include "verify/judge.h"

namespace lathe::verify {

// Positions of all stores that take at most about `max_ops` operations together, but at least two of each.
std::vector<reference::Position> choose_positions(std::span<const reference::StoreAxes> stores,
                                                  std::span<const double> costs, double max_ops,
                                                  std::uint64_t seed);

class Expected {
 public:
  // Contents by slot, before the kernel runs; `native` is what the device has instructions of its own for.
  Expected(Node kernel, std::span<const reference::Array> before, const reference::Bindings& bindings,
           double max_ops, std::span<const OpError> native = {}, std::uint64_t seed = 1);

  const reference::BoundedReport& report() const { return report_; }
  bool everywhere() const { return everywhere_; }  // or only at some positions

  // Contents after it ran, by slot; slots that it does not write may be empty. Samples that are unsure are
  // settled by the kernel that the device ran, which is then asked for; where that takes too long they count
  // as unjudged. Where all positions are known, elements that no store names must not change.
  using WithOptions = std::function<Node()>;
  Judgement judge(std::span<const reference::Array> before, std::span<const reference::Array> after,
                  const WithOptions& with_options) const;

  // The likely bound of a typical result of a slot, over its size: what two right kernels may differ by where
  // REF was not asked, times two. Infinite where no sample says so.
  double relative_bound(std::int64_t slot, DType stored) const;

 private:
  void settle(Judgement& judgement, std::span<const reference::Array> before,
              std::span<const reference::Array> after, const WithOptions& with_options) const;
  void look_elsewhere(Judgement& judgement, std::span<const reference::Array> before,
                      std::span<const reference::Array> after) const;

  reference::Bindings bindings_;
  double max_ops_;
  std::vector<reference::StoreAxes> stores_;
  reference::BoundedReport report_;
  bool everywhere_ = false;
};

}  // namespace lathe::verify
