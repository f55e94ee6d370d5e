// Where hooks on gradients stand: beside a leaf, or in the graph as a Custom op that is its operand.
#pragma once

#include <string_view>

#include "tensor/impl.h"

namespace lathe {

// (value, value, mark): the mark is a buffer of its own that says whose hooks these are.
inline constexpr std::string_view kGradientHook = "lathe.gradient_hook";

// The gradient after the hooks of such a node, or of a leaf; where there are none, as it was.
Tensor hooked_gradient(Node hook, const Tensor& grad);
Tensor hooked_gradient(const Tensor& leaf, const Tensor& grad);

}  // namespace lathe
