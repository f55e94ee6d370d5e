// Arguments for captured functions.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/lathe.h"

namespace lathe {

using Tensors = std::vector<Tensor>;

inline Tensor ramp(std::int64_t n, double from = 0) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(from + static_cast<double>(i));
  return Tensor(v);
}

}  // namespace lathe
