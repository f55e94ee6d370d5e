// The rows of unary.def and the functions of one tensor that take parameters.
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "tensor/impl.h"
#include "tensor/own_gradient.h"

namespace lathe {
namespace {

constexpr double kLn2 = std::numbers::ln2, kLog2E = std::numbers::log2e, kHalfPi = std::numbers::pi / 2;
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
  return up.where(low + 1, low);
}

Tensor sign_of(const Tensor& x) {
  if (x.dtype().is_bool()) return x;
  Tensor one = x.ones_like(), zero = x.zeros_like();
  Tensor positive = (x > 0).where(one, zero);
  if (x.dtype().is_unsigned()) return positive;
  Tensor out = (x < 0).where(one.neg(), positive);
  return x.dtype().is_float() ? x.isnan().where(x, out) : out;
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

// 1 - 2/(exp(2x) + 1) for larger |x|; near 0 that cancels, and a short continued fraction is exact to
// rounding.
Tensor hyperbolic_tangent(const Tensor& x) {
  Tensor size = x.detach().abs();
  Tensor large = 1.0 - 2.0 / ((x * (2 * kLog2E)).exp2() + 1.0);
  Tensor s = (size < 0.625).where(x, 0), q = s * s;
  Tensor small = s * (10395.0 + q * (1260.0 + q * 21.0)) / (10395.0 + q * (4725.0 + q * (210.0 + q)));
  return with_own_gradient("lathe.tanh", (size < 0.625).where(small, large), {x});
}

// Near 0 a polynomial of x^2 with a relative error below 8e-8; else 1 - 2^-q of |x|, where q is a polynomial
// for -log2(1 - erf) that grows without bound, so that infinity gives 1. Absolute error below 2e-7.
Tensor error_function(const Tensor& x) {
  const Tensor negative = x.detach() < 0, a = negative.where(x.neg(), x);
  Tensor minus_q = a * (-1.6282723908139531 +
                        a * (-0.9163738374448815 +
                             a * (-0.15328980601567946 +
                                  a * (0.03439176886243434 +
                                       a * (-0.005352703555832137 +
                                            a * (0.0005009859354747395 + a * -2.0777795230890078e-05))))));
  Tensor size = 1.0 - minus_q.exp2(), q = x * x;
  Tensor small =
      x * (1.1283790862994607 +
           q * (-0.37611930324191095 +
                q * (0.11273739714499738 + q * (-0.026360345024882742 + q * 0.004158899089614638))));
  return with_own_gradient("lathe.erf", (a < 0.75).where(small, negative.where(size.neg(), size)), {x});
}

// atan(x) by halving the argument twice (atan x = 2 atan(x / (1 + sqrt(1 + x^2)))) after |x| > 1 was turned
// into 1/x; then the series converges at once.
Tensor arctangent(const Tensor& x) {
  Tensor s = sign_of(x.detach());
  Tensor a = x * s;
  Tensor beyond = a.detach() > 1.0;
  Tensor r = beyond.where(1.0 / beyond.where(a, 1), a);
  for (int i = 0; i < 2; ++i) r = r / (1.0 + (1.0 + r * r).sqrt());
  Tensor q = r * r;
  Tensor series =
      r * (1.0 + q * (-1.0 / 3 +
                      q * (1.0 / 5 + q * (-1.0 / 7 + q * (1.0 / 9 + q * (-1.0 / 11 + q * (1.0 / 13)))))));
  Tensor angle = series * 4.0;
  return with_own_gradient("lathe.atan", s * beyond.where(kHalfPi - angle, angle), {x});
}

Tensor arcsine(const Tensor& x) { return (x / (1.0 - x * x).sqrt()).atan(); }

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
  return positive.where(x, (positive.where(0, x).exp() - 1.0) * alpha).cast(own);
}

Tensor Tensor::celu(double alpha) const {
  Scope scope;
  const DataType own = least_upper_float(dtype());
  const Tensor x = cast(sum_accumulator(own)), positive = x > 0;
  return positive.where(x, ((positive.where(0, x) * (1.0 / alpha)).exp() - 1.0) * alpha).cast(own);
}

Tensor Tensor::gelu(std::string_view approximate) const {
  Scope scope;
  const DataType own = least_upper_float(dtype());
  const Tensor x = cast(sum_accumulator(own));
  if (approximate == "none") return (x * 0.5 * (1.0 + (x * std::numbers::sqrt2 * 0.5).erf())).cast(own);
  if (approximate != "tanh")
    throw UserError("gelu", fmt::format("approximation \"{}\" is unknown", approximate))
        .help("\"tanh\" or \"none\"");
  return (x * 0.5 * (1.0 + ((x + x * x * x * 0.044715) * 0.79788456080286536).tanh())).cast(own);
}

Tensor Tensor::softplus(double beta, double threshold) const {
  Scope scope;
  const DataType own = least_upper_float(dtype());
  const Tensor x = cast(sum_accumulator(own));
  Tensor scaled = x * beta;
  Tensor linear = scaled.detach() > threshold;
  // log(1 + e^s) = max(s, 0) + log(1 + e^-|s|): neither part overflows.
  Tensor safe = linear.where(0, scaled);
  Tensor soft = (safe.maximum(0) + (1.0 + safe.abs().neg().exp()).log()) * (1.0 / beta);
  return linear.where(x, soft).cast(own);
}

}  // namespace lathe
