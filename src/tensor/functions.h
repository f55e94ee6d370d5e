// Functions of one tensor that would lose digits with the textbook formula: near 0, where two terms cancel,
// and for large arguments, where a term overflows although the result does not. All take float32 or float64
// (the `w` of unary.def) and return the same dtype; docs/numerics.md has their error bounds,
// tests/tensor/functions_test.cpp measures them. None is differentiated op by op: each has a gradient formula
// in own_gradient.cpp.
#pragma once

#include "lathe/tensor.h"

namespace lathe::functions {

// e^x * 2^power, for a whole power: e^x may overflow where this does not.
Tensor exponential(const Tensor& x, double power = 0);
// e^x for x <= 0 that will be summed, or divided by a sum, in any float dtype: x*log2(e) is rounded, which
// costs |x| units of a result that is e^x beside 1. Kernels with a running maximum are recognised by its
// form.
Tensor weight(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);      // 1 - erf(x)
Tensor softplus(const Tensor& x);  // log(1 + e^x)
Tensor mish(const Tensor& x);
Tensor gelu_tanh(const Tensor& x);
Tensor softsign(const Tensor& x);

// What the gradients of these ask too: where 1 is nothing beside x^2, and where mish(x) is x.
Tensor square_is_all(const Tensor& x);
Tensor mish_is_whole(const Tensor& x);

}  // namespace lathe::functions
