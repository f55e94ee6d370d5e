// Initial values of the layers' parameters. Nothing random is made where parameters stay uninitialised.
#pragma once

#include "lathe/nn/module.h"

namespace lathe::nn {

// Uniform within +-bound.
Tensor uniform_parameter(const Shape& shape, double bound);
Tensor constant_parameter(const Shape& shape, double value);
// The bound that keeps the variance of an output near that of its inputs: 1 / sqrt(inputs).
double fan_in_bound(std::int64_t inputs);

// Throws UserError naming the layer where a size is not positive.
void check_positive(std::string_view layer, std::string_view what, std::int64_t size);

}  // namespace lathe::nn
