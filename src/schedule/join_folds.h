// Kernels that carry what they compute through tiles of one axis (running_maximum.h) become one where one of
// them needs what the other has:
//
//   running values   m(i), l(i) and m(i), l(i), o(i, d)     the longer list, from which both stores take
//   theirs panels           p(t) and ds(t) = p(t) * (...)           the second is filled from the first; both
//   sums
//                                                            are components of one fold
//
// So the numbers of a row that rebuild attention's weights come from the forward kernel, and the gradients of
// keys and values from one kernel.
#pragma once

#include <optional>
#include <vector>

#include "ir/node.h"
#include "schedule/planner.h"

namespace lathe {

struct FoldKernel {
  std::vector<Node> effects;  // the stores, each over its ranges
  Node fold;
  FoldForm form = FoldForm::Sum;
  std::vector<Node> outside;  // ranges that all stores run over, outermost first
  Node tile, fill;            // the fold's range, and that of the first panel's loop
  Node factor;                // what that panel is filled with, within the axis
};

// A planned step as such a kernel, where it is one.
std::optional<FoldKernel> fold_kernel(const PlannedStep& step);

// Both as one, or nothing.
std::optional<FoldKernel> join_folds(const FoldKernel& a, const FoldKernel& b);

}  // namespace lathe
