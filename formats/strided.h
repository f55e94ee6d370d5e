// A tensor described by an offset and a stride for each axis, as torch writes it, from the flat list of
// elements.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/tensor.h"

namespace lathe::formats {

struct Strided {
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
};

// Why it does not describe elements of a list this long, or an empty text.
std::string strided_problem(const Strided& layout, std::int64_t elements);

// A view of the list, nothing is read; where axes overlap so that no view can say it, rows picked by index on
// the default device. The layout has no problem.
Tensor strided(const Tensor& flat, const Strided& layout);

}  // namespace lathe::formats
