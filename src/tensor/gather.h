// Rows by index and back. Both are sums or maxima over a comparison with 0, 1, 2, ...: the scheduler turns
// such a sum into a load, and gradients come out as the matching scatter.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

// out[i..., rest...] = x[index[i...], rest...]; negative indices count from the end; 0 where one is outside.
Tensor take_rows(const Tensor& x, const Tensor& index);

// x with x[index[i...], rest...] = rows[i..., rest...]; of several writes to one row the last wins.
Tensor put_rows(const Tensor& x, const Tensor& index, const Tensor& rows);

}  // namespace lathe
