// Activation checkpointing: memory for time. The values inside a checkpointed function are not kept for the
// gradient; they are computed again, from the function's inputs, once the gradient has come back to it.
//
//   Tensor y = checkpoint([&](const std::vector<Tensor>& in) { return block(in[0]); }, {x});
#pragma once

#include <functional>
#include <vector>

#include "lathe/tensor.h"

namespace lathe {

// function(inputs), with that promise. The function may use other tensors besides its inputs, such as
// weights: they get their gradients too. Random numbers drawn inside are the same when they are computed
// again.
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                  const std::vector<Tensor>& inputs);

}  // namespace lathe
