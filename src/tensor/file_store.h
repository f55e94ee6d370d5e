// Stores into part of a file (a tensor on DISK). A file computes nothing, so the value is computed elsewhere
// and written at once.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

bool is_in_file(const Tensor& tensor);

// The value has the target's dtype and can be expanded to its shape.
void store_into_file(const Tensor& target, const Tensor& value, std::string_view op);

}  // namespace lathe
