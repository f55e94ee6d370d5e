// The rotation that operators of several domains share.
#pragma once

#include "formats/onnx/call.h"

namespace lathe::onnx {

// Pairs of elements of x (batch, heads, length, size) turned by the angles of their position.
Tensor rotated(const Call& c, const Tensor& x, const Tensor& cosines, const Tensor& sines,
               const Tensor* positions, bool interleaved, std::int64_t width);

}  // namespace lathe::onnx
