// A sum of whole numbers that another sum turns into floats, as in a product of quantised blocks:
//
//   sum_b float(sum_j p[b, j]) * s[b]   ->   sum_b sum_j float(p[b, j]) * s[b]
//
// One kernel with one accumulator instead of a stored sum for every block. The sums of whole numbers are
// exact as floats, so what changes is the order of the outer sum's additions, as where a sum joins a sum. The
// rule is `spread-sum` and can be disabled by that name.
#pragma once

#include <string_view>

#include "ir/node.h"

namespace lathe {

inline constexpr std::string_view kSpreadSumRule = "spread-sum";

// The reduce in that form, or as it was.
Node spread_sum(Node reduce);

}  // namespace lathe
