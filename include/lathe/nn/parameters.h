// Who asks for the gradients of new parameters. In C++ a layer does, at once. A front end whose optimizers
// ask for them (as tinygrad's do) says so here, so that inference records nothing; parameters nobody asked
// for yet can be listed for backward().
#pragma once

#include <vector>

#include "lathe/tensor.h"

namespace lathe::nn {

// Whether parameter() calls requires_grad_(): for all threads, from now on.
void set_parameters_ask(bool ask);

// Adds one to the list, as parameter() does where it does not ask.
void remember_parameter(const Tensor& parameter);
// Those of the list that live.
std::vector<Tensor> remembered_parameters();

}  // namespace lathe::nn
