// Tensors as text: values, shape, dtype and device.
//
//   std::cout << Tensor::arange(3) << '\n';  // Tensor([0, 1, 2], shape=(3,), dtype=int32, device=CPU)
#pragma once

#include <iosfwd>
#include <string>

#include "lathe/tensor.h"

namespace lathe {

// The values as nested rows. What has more than a thousand elements is shortened to the ends of its axes, and
// only what is shown is computed. Where values cannot be known it says why.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace lathe
