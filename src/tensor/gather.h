// Rows by index and back. Both are sums or maxima over a comparison with 0, 1, 2, ...: the scheduler turns
// such a sum into a load, and gradients come out as the matching scatter.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

// The integers positions along n are counted and compared in: int32, or int64 where n or the index needs it.
DataType position_dtype(const Size& n, DataType index = dtypes::int32);

// out[i..., rest...] = x[index[i...], rest...]; negative indices count from the end; 0 where one is outside.
Tensor take_rows(const Tensor& x, const Tensor& index);

// x with x[index[i...], rest...] = rows[i..., rest...]; of several writes to one row the last wins.
Tensor put_rows(const Tensor& x, const Tensor& index, const Tensor& rows);

}  // namespace lathe
