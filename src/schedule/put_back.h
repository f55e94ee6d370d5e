// Windows with a stride, put back and added up, as in the gradients of pooling and of strided convolutions:
//
//   out[i] = sum_k x[(i - k)/s, k] where the division is whole
//
// Only every s-th k of a position counts: with k = s*q + m and i = s*o + m,
//
//   out[s*o + m] = sum_q x[o - q, s*q + m]
//
// an s-th of the work and no divisions. Windows that do not overlap need no sum at all. The rule is
// `put-back-by-residue` and can be disabled by that name.
#pragma once

#include <string_view>

#include "ir/node.h"

namespace lathe {

inline constexpr std::string_view kPutBackRule = "put-back-by-residue";

// The reduce of put back windows in that form, or as it was.
Node put_back_by_residue(Node reduce);

}  // namespace lathe
