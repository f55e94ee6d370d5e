// When new parameters get requires_grad. In C++ a layer sets it at once. A front end whose optimizers set it
// (as tinygrad's do) turns that off here, so that inference records no gradients; the parameters without it
// are remembered for backward().
#pragma once

#include <vector>

#include "lathe/tensor.h"

namespace lathe::nn {

// Sets whether parameter() calls requires_grad_(), for all threads.
void set_parameters_ask(bool ask);

// Adds a parameter to the list, as parameter() does when it does not call requires_grad_().
void remember_parameter(const Tensor& parameter);
// The parameters of the list that are still alive.
std::vector<Tensor> remembered_parameters();

}  // namespace lathe::nn
