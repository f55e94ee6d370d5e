// Handles of tensors, for bindings that create an object per handle. Unstable: for tools.
#pragma once

#include "lathe/tensor.h"

namespace lathe::dev {

// Another handle to the same tensor: writes through one are visible through the other, and each has its own
// gradient. A result computed from tensors that require a gradient is detached from them.
Tensor other_handle(const Tensor& tensor);

}  // namespace lathe::dev
