// Functions with a gradient formula: differentiated op by op they would give NaN if an intermediate overflows
// (sigmoid, tanh), or another value at a kink (relu at 0).
#pragma once

#include <string_view>
#include <vector>

#include "ir/node.h"
#include "lathe/tensor.h"

namespace lathe {

using GradientRule = std::vector<Tensor> (*)(const std::vector<Tensor>& inputs, const Tensor& output,
                                             const Tensor& grad);

// The value, differentiated with respect to the inputs by the rule of that name, which says what shapes it
// takes. All of one dtype.
Tensor with_own_gradient(std::string_view rule, const Tensor& value, const std::vector<Tensor>& inputs);
// `value` written over `old` by a write that gradients do not see: the gradient of what was there goes on to
// it.
Node written_unseen(Node value, Node old);
// Null where there is no such rule.
GradientRule own_gradient(std::string_view rule);

}  // namespace lathe
