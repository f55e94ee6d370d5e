#include "tensor/own_gradient.h"

#include <cmath>
#include <numbers>

#include "tensor/impl.h"

namespace lathe {
namespace {

using Inputs = std::vector<Tensor>;

// 0 at 0, as subgradient. By the result, which is often in memory where the input need not be.
Inputs relu_gradient(const Inputs&, const Tensor& out, const Tensor& g) { return {(out > 0).where(g, 0)}; }
// What the bounds (inputs 1 and 2) keep gets nothing; what stands on one of them does.
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
Inputs atan_gradient(const Inputs& in, const Tensor&, const Tensor& g) { return {g / (1.0 + in[0] * in[0])}; }
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

struct Row {
  std::string_view name;
  GradientRule rule;
};
constexpr Row kRules[] = {
    {"lathe.relu", relu_gradient},       {"lathe.clamp", clamp_gradient},
    {"lathe.sigmoid", sigmoid_gradient}, {"lathe.tanh", tanh_gradient},
    {"lathe.erf", erf_gradient},         {"lathe.atan", atan_gradient},
    {"lathe.pow", pow_gradient},         {"lathe.inverse_pow", inverse_power_gradient},
};

}  // namespace

GradientRule own_gradient(std::string_view rule) {
  for (const Row& row : kRules)
    if (row.name == rule) return row.rule;
  return nullptr;
}

Tensor with_own_gradient(std::string_view rule, const Tensor& value, const std::vector<Tensor>& inputs) {
  Scope scope;
  const Node out = node_of(value);
  if (!value.dtype().is_float() || out.is_const()) return value;
  std::vector<Node> args{out};
  bool tracked = false;
  for (const Tensor& t : inputs) {
    args.push_back(node_of(t));
    tracked |= is_tracked(t);
  }
  const AttrData attr{std::string(rule), {}};
  return make_tensor(intern(Op::Custom, out.dtype(), args, Attr::of(attr)), value.device(), tracked);
}

}  // namespace lathe
