// Handles of tensors, for bindings that give every handle an object of its own. Unstable: for tools.
#pragma once

#include "lathe/tensor.h"

namespace lathe::dev {

// The same tensor under another handle: what is written through one shows in both, and each has its own
// gradient. What was computed from tensors that require one is detached from them.
Tensor other_handle(const Tensor& tensor);

}  // namespace lathe::dev
