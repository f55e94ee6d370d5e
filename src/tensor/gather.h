// Gathering rows by index, and the transpose of that: loads and stores at computed positions.
#pragma once

#include <string_view>

#include "lathe/tensor.h"

namespace lathe {

// The integers positions along n are counted and compared in: int32, or int64 where n or the index needs it.
DataType position_dtype(const Size& n, DataType index = dtypes::int32);

// Below, `op` is in whose name an index that is outside is told when the kernel runs; such an index reads 0
// and writes nothing. kTrusted: the library made the index, and being outside is no fault.
inline constexpr std::string_view kTrusted = "";

// Indices along an axis of n as positions: negative ones count from the end.
Tensor axis_positions(const Tensor& index, const Size& n, std::string_view op);

// out[i..., rest...] = x[index[i...], rest...].
Tensor take_rows(const Tensor& x, const Tensor& index, std::string_view op);

// x[b, index[b, ...]]: rows of x (rows, n) at positions of their own; 0 where one is outside.
Tensor take_in_rows(const Tensor& x, const Tensor& index);

// x with x[index[i...], rest...] = rows[i..., rest...]; of several writes to one row the last wins.
Tensor put_rows(const Tensor& x, const Tensor& index, const Tensor& rows, std::string_view op);

// Tensor::gather with operands that fit.
Tensor gather_along(const Tensor& x, std::int64_t axis, const Tensor& index, std::string_view op);

}  // namespace lathe
