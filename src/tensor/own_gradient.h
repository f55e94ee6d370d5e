// Functions whose gradient is a formula of its own: differentiated op by op they would give NaN where
// something in between overflows (sigmoid, tanh), or another answer at a corner (relu at 0).
#pragma once

#include <string_view>
#include <vector>

#include "lathe/tensor.h"

namespace lathe {

using GradientRule = std::vector<Tensor> (*)(const std::vector<Tensor>& inputs, const Tensor& output,
                                             const Tensor& grad);

// The value, differentiated with respect to the inputs by the rule of that name, which says what shapes it
// takes. All of one dtype.
Tensor with_own_gradient(std::string_view rule, const Tensor& value, const std::vector<Tensor>& inputs);
// Null where there is no such rule.
GradientRule own_gradient(std::string_view rule);

}  // namespace lathe
