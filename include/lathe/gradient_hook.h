// Functions that are shown gradients while they are computed, and may change them.
#pragma once

#include <cstdint>
#include <functional>

#include "lathe/tensor.h"

namespace lathe {

// Takes the gradient of a tensor and gives what stands for it from then on, or an empty Tensor to leave it.
using GradientHook = std::function<Tensor(const Tensor& grad)>;

// Calls the hook with the gradient of `t`, once it is complete, in every pass that computes it. `t` is what
// passes gradients on from now on: where something was computed from it before, unless it is a leaf, such a
// pass is refused. A view is a tensor of its own from then on. Gives a number for remove_gradient_hook.
std::uint64_t add_gradient_hook(Tensor& t, GradientHook hook);
void remove_gradient_hook(std::uint64_t number);

}  // namespace lathe
