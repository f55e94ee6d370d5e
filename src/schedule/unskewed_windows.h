// The sum of strided windows at their original positions (Unskew), as in the gradients of pooling and of
// strided convolutions:
//
//   out[i] = sum_k x[(i - k)/s, k] where s divides i - k
//
// Only every s-th k contributes to a position: with k = s*q + m and i = s*o + m,
//
//   out[s*o + m] = sum_q x[o - q, s*q + m]
//
// which is 1/s of the work, without divisions. Windows that do not overlap need no sum. The rule is
// `unskew-by-residue` and can be disabled by that name.
#pragma once

#include <string_view>

#include "ir/node.h"

namespace lathe {

inline constexpr std::string_view kUnskewRule = "unskew-by-residue";

// Rewrites a reduce of unskewed windows to this form; returns other reduces unchanged.
Node unskew_by_residue(Node reduce);

}  // namespace lathe
