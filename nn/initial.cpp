#include "nn/initial.h"

#include <fmt/format.h>

#include <cmath>

namespace lathe::nn {

Tensor uniform_parameter(const Shape& shape, double bound) {
  if (UninitializedScope::active()) return Tensor::empty(shape).requires_grad_();
  return parameter(Tensor::uniform(shape, -bound, bound));
}

Tensor constant_parameter(const Shape& shape, double value) {
  return parameter(Tensor::full(shape, value, {.dtype = dtypes::default_float()}));
}

double fan_in_bound(std::int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); }

void check_positive(std::string_view layer, std::string_view what, std::int64_t size) {
  if (size <= 0) throw UserError(layer, fmt::format("{} is {}, which is not positive", what, size));
}

}  // namespace lathe::nn
