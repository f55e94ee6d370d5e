// Conversions between dtypes as integer operations and plain casts. The bits agree with `convert`
// (ir/value.h): 8-bit floats exhaustively, NaN included (it is the positive one); half and bfloat16 up to the
// payload of a NaN.
#pragma once

#include "ir/node.h"

namespace lathe {

// Which conversions are left to the target: between float32 and the small floats of this list.
struct NativeConversions {
  bool half = false, bfloat16 = false;
  bool has(DType dtype) const {
    return (half && dtype.scalar == Scalar::Float16) || (bfloat16 && dtype.scalar == Scalar::BFloat16);
  }
};

// Half, bfloat16 and the 8-bit floats.
bool is_small_float(DType dtype);

// x as `to`. Float to integer saturates, in explicit steps; conversions of small floats go through float32.
Node decompose_cast(Node x, DType to, NativeConversions native);

}  // namespace lathe
