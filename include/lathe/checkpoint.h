// Activation checkpointing trades time for memory: values inside a checkpointed function are not kept for the
// gradient, but recomputed from the function's inputs during backward().
//
//   Tensor y = checkpoint([&](const std::vector<Tensor>& in) { return block(in[0]); }, {x});
#pragma once

#include <functional>
#include <vector>

#include "lathe/tensor.h"

namespace lathe {

// Returns function(inputs) as one checkpointed block. Other tensors the function uses, such as weights, get
// their gradients too. Recomputation draws the same random numbers.
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                  const std::vector<Tensor>& inputs);

}  // namespace lathe
