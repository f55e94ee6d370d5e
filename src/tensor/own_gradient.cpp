#include "tensor/own_gradient.h"

#include <cmath>
#include <numbers>

#include "tensor/functions.h"
#include "tensor/impl.h"
#include "tensor/linalg.h"

namespace lathe {
namespace {

using Inputs = std::vector<Tensor>;

// 0 at 0, as subgradient. By the result, which is often in memory where the input need not be.
Inputs relu_gradient(const Inputs&, const Tensor& out, const Tensor& g) { return {(out > 0).where(g, 0)}; }
// What the bounds (inputs 1 and 2) keep gets nothing; what is on one of them does.
Inputs clamp_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  return {((in[0] < in[1]) | (in[0] > in[2])).where(0, g), Tensor(), Tensor()};
}
Inputs sigmoid_gradient(const Inputs&, const Tensor& out, const Tensor& g) {
  return {g * (out * (1.0 - out))};
}
Inputs tanh_gradient(const Inputs&, const Tensor& out, const Tensor& g) { return {g * (1.0 - out * out)}; }
Inputs erf_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  return {g * ((in[0] * in[0] * -std::numbers::log2e).exp2() * (2.0 * std::numbers::inv_sqrtpi))};
}
Inputs erfc_gradient(const Inputs& in, const Tensor& out, const Tensor& g) {
  return erf_gradient(in, out, g.neg());
}
Inputs atan_gradient(const Inputs& in, const Tensor&, const Tensor& g) { return {g / (1.0 + in[0] * in[0])}; }
Inputs exp_gradient(const Inputs&, const Tensor& out, const Tensor& g) { return {g * out}; }
// Not out + 1, which is 0 far below.
Inputs expm1_gradient(const Inputs& in, const Tensor&, const Tensor& g) { return {g * in[0].exp()}; }
Inputs log1p_gradient(const Inputs& in, const Tensor&, const Tensor& g) { return {g / (in[0] + 1.0)}; }
Inputs sinh_gradient(const Inputs& in, const Tensor&, const Tensor& g) { return {g * in[0].cosh()}; }
Inputs cosh_gradient(const Inputs& in, const Tensor&, const Tensor& g) { return {g * in[0].sinh()}; }

// x^2 overflows far out, where the derivative of both is 1/|x|.
Inputs inverse_hyperbolic(const Tensor& x, const Tensor& root, const Tensor& g) {
  const Tensor size = x.abs(), far = functions::square_is_all(x);
  return {g / far.where(size, far.where(1, root).sqrt())};
}
Inputs asinh_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  return inverse_hyperbolic(in[0], in[0] * in[0] + 1.0, g);
}
Inputs acosh_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  return inverse_hyperbolic(in[0], (in[0] - 1.0) * (in[0] + 1.0), g);
}
// 1 - x^2 without what x^2 loses.
Tensor one_minus_square(const Tensor& x) { return (1.0 - x) * (x + 1.0); }
Inputs atanh_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  return {g / one_minus_square(in[0])};
}
Inputs asin_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  return {g / one_minus_square(in[0]).sqrt()};
}
Inputs acos_gradient(const Inputs& in, const Tensor& out, const Tensor& g) {
  return asin_gradient(in, out, g.neg());
}
Inputs softplus_gradient(const Inputs& in, const Tensor&, const Tensor& g) { return {g * in[0].sigmoid()}; }
// With e = e^x and n = e*(e + 2): T = n/(n + 2) and x*(1 - T^2)*e/(1 + e).
Inputs mish_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  const Tensor &x = in[0], whole = functions::mish_is_whole(x), inside = whole.where(0, x);
  const Tensor e = inside.exp(), n = e * (e + 2.0), d = 1.0 / (n + 2.0);
  return {g * whole.where(1, (n + inside * e * (e + 1.0) * 4.0 * d) * d)};
}
// s = sigmoid(2u): s + x*s*(1 - s)*2u', where the second is nothing for |x| above 40.
Inputs gelu_tanh_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  constexpr double kScale = 2 * 0.79788456080286536, kCube = 0.044715;
  const Tensor x = in[0].clamp(-40, 40), z = x * x, s = (x * (z * kCube + 1.0) * kScale).sigmoid();
  return {g * (s + x * s * (1.0 - s) * ((z * (3 * kCube) + 1.0) * kScale))};
}
Inputs softsign_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  const Tensor r = 1.0 / (in[0].abs() + 1.0);
  return {g * r * r};
}
// x^y: y x^(y-1), which is 0 for y = 0 whatever x is; and x^y ln x, which at x = 0 is 0 or, for y < 0, -inf.
Inputs pow_gradient(const Inputs& in, const Tensor& out, const Tensor& g) {
  const Tensor &x = in[0], &y = in[1];
  const Tensor at_zero = (y < 0).where(-INFINITY, zero_beside(y));
  return {g * (y == 0).where(0, y * x.pow(y - 1)), g * (x == 0).where(at_zero, out * x.log())};
}

// x^y for a constant y < 0: y x^y / x.
Inputs inverse_power_gradient(const Inputs& in, const Tensor& out, const Tensor& g) {
  return {g * (out / in[0] * in[1]), Tensor()};
}

// x - q*y with a whole q.
Inputs mod_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  return {g, g.neg() * in[0].floor_divide(in[1])};
}
Inputs fmod_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  return {g, g.neg() * in[0].div(in[1], "trunc")};
}
// The share of each: e^x / (e^x + e^y).
Inputs logaddexp_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  const Tensor apart = (in[0] == in[1]).where(0, in[0] - in[1]);
  return {g * apart.sigmoid(), g * apart.neg().sigmoid()};
}

// (p - t) / (p (1 - p)), in which the product is kept from 0: a certain right answer costs nothing.
Inputs binary_crossentropy_gradient(const Inputs& in, const Tensor&, const Tensor& g) {
  const Tensor &p = in[0], &t = in[1], rest = 1.0 - p;
  const double least = p.dtype() == dtypes::float16 ? 6.2e-5 : 1e-12;
  return {g * ((p - t) / (p * rest).maximum(least)),
          g * (rest.log().maximum(-100.0) - p.log().maximum(-100.0))};
}

Inputs deviation_gradient(const Inputs&, const Tensor& out, const Tensor& g) {
  const Tensor none = out == 0;
  return {none.where(0, g / none.where(1, out + out))};
}

Inputs unseen_write_gradient(const Inputs&, const Tensor&, const Tensor& g) { return {g}; }

constexpr std::string_view kUnseenWrite = "lathe.written_unseen";

struct Row {
  std::string_view name;
  GradientRule rule;
};
constexpr Row kRules[] = {
    {"lathe.relu", relu_gradient},
    {"lathe.clamp", clamp_gradient},
    {"lathe.sigmoid", sigmoid_gradient},
    {"lathe.tanh", tanh_gradient},
    {"lathe.erf", erf_gradient},
    {"lathe.atan", atan_gradient},
    {"lathe.pow", pow_gradient},
    {"lathe.inverse_pow", inverse_power_gradient},
    {"lathe.exp", exp_gradient},
    {"lathe.expm1", expm1_gradient},
    {"lathe.log1p", log1p_gradient},
    {"lathe.sinh", sinh_gradient},
    {"lathe.cosh", cosh_gradient},
    {"lathe.asinh", asinh_gradient},
    {"lathe.acosh", acosh_gradient},
    {"lathe.atanh", atanh_gradient},
    {"lathe.asin", asin_gradient},
    {"lathe.acos", acos_gradient},
    {"lathe.erfc", erfc_gradient},
    {"lathe.softplus", softplus_gradient},
    {"lathe.mish", mish_gradient},
    {"lathe.gelu_tanh", gelu_tanh_gradient},
    {"lathe.softsign", softsign_gradient},
    {"lathe.mod", mod_gradient},
    {"lathe.fmod", fmod_gradient},
    {"lathe.deviation", deviation_gradient},
    {"lathe.logaddexp", logaddexp_gradient},
    {"lathe.binary_crossentropy", binary_crossentropy_gradient},
    {kUnseenWrite, unseen_write_gradient},
    {"lathe.svd", svd_gradient},
    {"lathe.filled_svd", filled_svd_gradient},
};

}  // namespace

GradientRule own_gradient(std::string_view rule) {
  for (const Row& row : kRules)
    if (row.name == rule) return row.rule;
  return nullptr;
}

Node written_unseen(Node value, Node old) {
  const AttrData attr{std::string(kUnseenWrite), {}};
  return intern(Op::Custom, value.dtype(), {value.is_const() ? contiguous(value) : value, old},
                Attr::of(attr));
}

Tensor with_own_gradient(std::string_view rule, const Tensor& value, const std::vector<Tensor>& inputs) {
  Scope scope;
  const Node out = node_of(value);
  if (!value.dtype().is_float() || out.is_const()) return value;
  std::vector<Node> args{out};
  Origin origin;
  for (const Tensor& t : inputs) {
    args.push_back(node_of(t));
    origin = origin | origin_of(t);
  }
  const AttrData attr{std::string(rule), {}};
  Tensor made = make_tensor(intern(Op::Custom, out.dtype(), args, Attr::of(attr)), value.device(), origin);
  made.impl()->weak = value.impl()->weak;
  return made;
}

}  // namespace lathe
