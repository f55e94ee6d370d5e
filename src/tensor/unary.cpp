// The rows of unary.def and the functions of one tensor that take parameters.
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "tensor/functions.h"
#include "tensor/impl.h"
#include "tensor/own_gradient.h"

namespace lathe {
namespace {

constexpr double kLn2 = std::numbers::ln2, kLog2E = std::numbers::log2e;
constexpr double kLog10Of2 = 0.30102999566398119521;

Tensor negated(const Tensor& x) {
  Scope scope;
  if (x.dtype().is_bool()) return x.logical_not();
  return make_like(x, neg(node_of(x)));
}

Tensor rounded(Op op, const Tensor& x) { return x.dtype().is_float() ? primitive(op, x) : x; }

Tensor nearest_even(const Tensor& x) {
  if (!x.dtype().is_float()) return x;
  // floor(x + 1/2), except that halves go to the even neighbour.
  Tensor low = x.floor(), part = x - low;
  Tensor odd = (low * 0.5).floor() * 2 != low;
  Tensor up = (part > 0.5) | ((part == 0.5) & odd);
  return up.where((low.neg() - 1).neg(), low);  // which is -0 for -1
}

Tensor sign_of(const Tensor& x) {
  if (x.dtype().is_bool()) return x;
  Tensor one = x.ones_like(), zero = x.zeros_like();
  Tensor positive = (x > 0).where(one, zero);
  if (x.dtype().is_unsigned()) return positive;
  Tensor out = (x < 0).where(one.neg(), positive);
  return x.dtype().is_float() ? x.isnan().where(x.detach(), out) : out;
}

Tensor magnitude(const Tensor& x) {
  if (x.dtype().is_unsigned() || x.dtype().is_bool()) return x;
  Tensor size = x.maximum(x.neg());  // ties share the gradient, so it is 0 at 0
  // The greater of 0 and -0 may be either of them; 0 more makes it 0.
  return x.dtype().is_float() ? size + 0.0 : size;
}

Tensor infinite(const Tensor& x) {
  if (!x.dtype().is_float())
    return Tensor::full(x.shape(), false, {.dtype = dtypes::bool_, .device = x.device()});
  return (x == INFINITY) | (x == -INFINITY);
}

}  // namespace

#define LATHE_UNARY(name, meaning)                                                   \
  Tensor Tensor::name() const {                                                      \
    Scope scope;                                                                     \
    const Tensor& x = *this;                                                         \
    const DataType own = least_upper_float(x.dtype());                               \
    [[maybe_unused]] Tensor f = converted(x, own);                                   \
    [[maybe_unused]] Tensor w = converted(x, sum_accumulator(own));                  \
    [[maybe_unused]] auto back = [&](const Tensor& t) { return converted(t, own); }; \
    return meaning;                                                                  \
  }
#include "lathe/unary.def"
#undef LATHE_UNARY

Tensor Tensor::hardtanh(double low, double high) const { return clamp(Number(low), Number(high)); }

Tensor Tensor::leaky_relu(double slope) const {
  Scope scope;
  return (*this < 0).where(*this * slope, *this);
}

Tensor Tensor::elu(double alpha) const {
  Scope scope;
  const DataType own = least_upper_float(dtype());
  const Tensor x = cast(sum_accumulator(own)), positive = x > 0;
  return positive.where(x, functions::expm1(positive.where(0, x)) * alpha).cast(own);
}

Tensor Tensor::celu(double alpha) const {
  Scope scope;
  const DataType own = least_upper_float(dtype());
  const Tensor x = cast(sum_accumulator(own)), positive = x > 0;
  return positive.where(x, functions::expm1(positive.where(0, x) * (1.0 / alpha)) * alpha).cast(own);
}

Tensor Tensor::gelu(std::string_view approximate) const {
  Scope scope;
  const DataType own = least_upper_float(dtype());
  const Tensor x = cast(sum_accumulator(own));
  if (approximate == "none") return (x * (functions::erfc(x * (-0.5 * std::numbers::sqrt2)) * 0.5)).cast(own);
  if (approximate != "tanh")
    throw UserError("gelu", fmt::format("approximation \"{}\" is unknown", approximate))
        .help("\"tanh\" or \"none\"");
  return functions::gelu_tanh(x).cast(own);
}

Tensor Tensor::softplus(double beta, double threshold) const {
  Scope scope;
  const DataType own = least_upper_float(dtype());
  const Tensor x = cast(sum_accumulator(own));
  Tensor scaled = x * beta;
  Tensor linear = scaled.detach() > threshold;
  Tensor soft = functions::softplus(linear.where(0, scaled)) * (1.0 / beta);
  return linear.where(x, soft).cast(own);
}

}  // namespace lathe
