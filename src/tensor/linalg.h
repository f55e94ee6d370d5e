// Gradients of factorisations, as formulas of the factors: the iterations that compute the factors cannot be
// differentiated step by step (equal columns divide 0 by 0).
#pragma once

#include <vector>

#include "lathe/tensor.h"

namespace lathe {

// Of U, the singular values as a row, and V, below each other.
std::vector<Tensor> svd_gradient(const std::vector<Tensor>& inputs, const Tensor& output, const Tensor& grad);
// Of a U that was filled up to a square one: there is none, the added columns being any that fit.
std::vector<Tensor> filled_svd_gradient(const std::vector<Tensor>& inputs, const Tensor& output,
                                        const Tensor& grad);

}  // namespace lathe
