// Joins two kernels that carry running values through tiles of the same axis (running_maximum.h), if one of
// them needs what the other computes:
//
//   running values m(i), l(i) and m(i), l(i), o(i, d)
//     one fold with the longer list, from which both stores take their values
//   panels p(t) and ds(t) = p(t) * (...)
//     the second panel is filled from the first, and both sums are components of one fold
//
// So the row statistics that rebuild attention's weights come from the forward kernel, and one kernel
// computes the gradients of both keys and values.
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
  std::int64_t outputs = 0;   // on a matrix unit: of a row of all sums, as fragments have them
};

// A planned step as such a kernel, where it is one.
std::optional<FoldKernel> fold_kernel(const PlannedStep& step);

// Both as one, or nothing; indices are compared by these rules.
std::optional<FoldKernel> join_folds(const FoldKernel& a, const FoldKernel& b, const RuleChanges& rules);

}  // namespace lathe
