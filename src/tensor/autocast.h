// Casts of operands for mixed precision. Outside an AutocastScope both functions return the tensor unchanged.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

Tensor lowered(const Tensor& x);  // of products: in the scope's dtype
Tensor widened(const Tensor& x);  // of what sums many terms or takes powers: in 32 bits

}  // namespace lathe
