// Tensors as text: values, shape, dtype and device.
//
//   std::cout << Tensor::arange(3) << '\n';  // Tensor([0, 1, 2], shape=(3,), dtype=int32, device=CPU)
#pragma once

#include <iosfwd>
#include <string>

#include "lathe/tensor.h"

namespace lathe {

// The values as nested lists. A tensor with more than a thousand elements is shortened to the ends of its
// axes, and only the elements shown are computed. If the values cannot be computed, the text says why.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace lathe
