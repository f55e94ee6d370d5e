// Parameters that nobody asked the gradient of yet, and everybody expects one from backward().
#pragma once

#include "lathe/tensor.h"

namespace lathe {

// Where backward() cannot give this tensor its gradient, because a value on the way was realized and kept no
// expression, reading `grad` is an error; for other tensors that never asked there is none.
void expect_gradient(const Tensor& parameter);

}  // namespace lathe
