// Joins an integer sum with an outer sum that converts it to floats, as in a product of quantised blocks:
//
//   sum_b float(sum_j p[b, j]) * s[b]   ->   sum_b sum_j float(p[b, j]) * s[b]
//
// This gives one kernel with one accumulator instead of a stored sum per block. The integer sums are exact as
// floats, so only the order of the outer sum's additions changes. The
// rule is `spread-sum` and can be disabled by that name.
#pragma once

#include <string_view>

#include "ir/node.h"

namespace lathe {

inline constexpr std::string_view kSpreadSumRule = "spread-sum";

// The reduce in that form, or as it was.
Node spread_sum(Node reduce);

}  // namespace lathe
