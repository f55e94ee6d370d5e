// Activations, and functions over one axis that belong to them.
#include <fmt/format.h>

#include <algorithm>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// What each function computes from its two parameters, with the defaults of the operator.
struct ActivationRow {
  const char* name;
  double alpha, beta;
  Tensor (*function)(const Tensor& x, double alpha, double beta);
};

Tensor exponential_below_zero(const Tensor& x, double alpha) {
  return x.gt(0).where(x, x.minimum(0).expm1() * alpha);
}

// clang-format off
const ActivationRow kActivations[] = {
    {"Affine",          1.0,    0.0, [](const Tensor& x, double a, double b) { return x * a + b; }},
    {"Elu",             1.0,    0.0, [](const Tensor& x, double a, double) { return exponential_below_zero(x, a); }},
    {"HardSigmoid",     0.2,    0.5, [](const Tensor& x, double a, double b) { return (x * a + b).clamp(0, 1); }},
    {"LeakyRelu",       0.01,   0.0, [](const Tensor& x, double a, double) { return x.lt(0).where(x * a, x); }},
    {"Relu",            0.0,    0.0, [](const Tensor& x, double, double) { return x.relu(); }},
    {"ScaledTanh",      1.0,    1.0, [](const Tensor& x, double a, double b) { return (x * b).tanh() * a; }},
    {"Sigmoid",         0.0,    0.0, [](const Tensor& x, double, double) { return x.sigmoid(); }},
    {"Softplus",        0.0,    0.0, [](const Tensor& x, double, double) { return x.softplus(); }},
    {"Softsign",        0.0,    0.0, [](const Tensor& x, double, double) { return x.softsign(); }},
    {"Tanh",            0.0,    0.0, [](const Tensor& x, double, double) { return x.tanh(); }},
    {"ThresholdedRelu", 1.0,    0.0, [](const Tensor& x, double a, double) { return x.gt(a).where(x, 0).cast(x.dtype()); }},
};
// clang-format on

const ActivationRow* find_activation(std::string_view name) {
  const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  for (const ActivationRow& row : kActivations) {
    const std::string_view own = row.name;
    if (own.size() == name.size() && std::equal(own.begin(), own.end(), name.begin(), same)) return &row;
  }
  return nullptr;
}

Outputs by_table(const Call& c) {
  const ActivationRow& row = *find_activation(c.node.op);
  return {
      row.function(c.x(0), c.number("alpha", row.alpha), c.number("beta", row.beta)).cast(c.x(0).dtype())};
}

Outputs relu(const Call& c) {
  Outputs out = by_table(c);
  if (const ScaledSum* from = c.evaluator.scaled_sum(c.x(0))) {
    ScaledSum positive = *from;
    positive.real = out[0].tensor();
    positive.positive = true;
    c.evaluator.note_scaled_sum(std::move(positive));
  }
  return out;
}

Outputs celu(const Call& c) {
  const double alpha = c.number("alpha", 1.0);
  const Tensor& x = c.x(0);
  return {x.maximum(0) + ((x / alpha).expm1() * alpha).minimum(0)};
}

Outputs selu(const Call& c) {
  const double alpha = c.number("alpha", c.version < 6 ? 1.6732 : 1.67326319217681884765625);
  const double gamma = c.number("gamma", c.version < 6 ? 1.0507 : 1.05070102214813232421875);
  return {exponential_below_zero(c.x(0), alpha) * gamma};
}

// The slope has the axes of x from its first on, or broadcasts to it.
Outputs prelu(const Call& c) {
  const Tensor &x = c.x(0), &slope = c.x(1);
  const Tensor fitted =
      c.version < 9 && slope.ndim() == 1 && x.ndim() > 1 ? along(slope, 1, x.ndim()) : slope;
  return {x.lt(0).where(x * fitted, x)};
}

Outputs shrink(const Call& c) {
  const double bias = c.number("bias", 0.0), lambda = c.number("lambd", 0.5);
  const Tensor& x = c.x(0);
  return {x.lt(-lambda).where(x + bias, x.gt(lambda).where(x - bias, 0)).cast(x.dtype())};
}

// Before version 13 the input is seen as a matrix, cut at the axis.
template <class Function>
Outputs over_axis(const Call& c, Function function) {
  const Tensor& x = c.x(0);
  const std::int64_t rank = x.ndim(), axis = c.axis(c.integer("axis", c.version < 13 ? 1 : -1),
                                                    std::max<std::int64_t>(rank, 1));
  if (c.version >= 13) return {function(x, axis)};
  Size rows = 1, columns = 1;
  for (std::int64_t i = 0; i < rank; ++i)
    (i < axis ? rows : columns) = (i < axis ? rows : columns) * x.size(i);
  return {function(x.reshape({rows, columns}), 1).reshape(x.shape())};
}

Tensor hardmax(const Tensor& x, std::int64_t axis) {
  Shape shape(static_cast<std::size_t>(x.ndim()), Size(1));
  shape[static_cast<std::size_t>(axis)] = x.size(axis);
  const Tensor positions =
      Tensor::arange(x.size(axis).value(), {.dtype = dtypes::int64, .device = x.device()}).reshape(shape);
  return positions.eq(x.argmax(axis, true).cast(dtypes::int64)).cast(x.dtype());
}

Outputs gelu(const Call& c) {
  const Tensor& x = c.x(0);
  return {x.gelu(c.text("approximate", "none"))};
}

// clang-format off
const OpRow kRows[] = {
    {"Affine", 1, by_table}, {"Elu", 1, by_table}, {"HardSigmoid", 1, by_table}, {"LeakyRelu", 1, by_table},
    {"Relu", 1, relu}, {"ScaledTanh", 1, by_table}, {"Sigmoid", 1, by_table}, {"Softplus", 1, by_table},
    {"Softsign", 1, by_table}, {"ThresholdedRelu", 1, by_table},
    {"Celu", 12, celu},
    {"Selu", 1, selu},
    {"PRelu", 1, prelu},
    {"Shrink", 9, shrink},
    {"HardSwish", 14, [](const Call& c) -> Outputs { return {c.x(0) * (c.x(0) * (1.0 / 6.0) + 0.5).clamp(0, 1)}; }},
    {"Mish", 18, [](const Call& c) -> Outputs { return {c.x(0).mish()}; }},
    {"Gelu", 20, gelu},
    {"Swish", 24, [](const Call& c) -> Outputs { return {c.x(0) * (c.x(0) * c.number("alpha", 1.0)).sigmoid()}; }},
    {"SwiGLU", 28, [](const Call& c) -> Outputs { return {c.x(0) * (c.x(0) * c.number("alpha", 1.0)).sigmoid() * c.x(1)}; }},
    {"Softmax", 1, [](const Call& c) -> Outputs { return over_axis(c, [](const Tensor& x, std::int64_t a) { return x.softmax(a); }); }},
    {"LogSoftmax", 1, [](const Call& c) -> Outputs { return over_axis(c, [](const Tensor& x, std::int64_t a) { return x.log_softmax(a); }); }},
    {"Hardmax", 1, [](const Call& c) -> Outputs { return over_axis(c, hardmax); }},
};
// clang-format on

}  // namespace

Tensor activation(const Call& c, std::string_view name, const Tensor& x, double alpha, double beta) {
  const ActivationRow* row = find_activation(name);
  if (row == nullptr) c.not_supported(fmt::format("there is no activation '{}'", formats::shown(name)));
  return row->function(x, alpha, beta);
}

std::pair<double, double> activation_defaults(std::string_view name) {
  const ActivationRow* row = find_activation(name);
  return row == nullptr ? std::pair{0.0, 0.0} : std::pair{row->alpha, row->beta};
}

OpTable activation_ops() { return {"", "activations", kRows}; }

}  // namespace lathe::onnx
