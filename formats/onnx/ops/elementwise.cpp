// Arithmetic, comparisons and functions of one tensor, element by element.
#include <fmt/format.h>

#include <cmath>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

Outputs integer_or_float_quotient(const Call& c) {
  const Tensor &x = c.x(0), y = second_operand(c);
  return {x.is_floating_point() ? x.fdiv(y) : x.div(y, "trunc")};
}

Outputs remainder(const Call& c) {
  return {c.integer("fmod", 0) != 0 ? c.x(0).fmod(c.x(1)) : c.x(0).mod(c.x(1))};
}

// The result has the dtype of the base, whatever the exponent's is.
Outputs power(const Call& c) {
  const Tensor &base = c.x(0), exponent = second_operand(c);
  return {base.pow(exponent).cast(base.dtype())};
}

Outputs shifted(const Call& c) {
  const std::string direction = c.text("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    c.fail(fmt::format("direction is '{}', LEFT or RIGHT is needed", direction));
  return {direction == "LEFT" ? c.x(0).lshift(c.x(1)) : c.x(0).rshift(c.x(1))};
}

template <Tensor (Tensor::*combine)(const Operand&) const>
Outputs folded(const Call& c) {
  Tensor all = c.x(0);
  for (std::size_t i = 1; i < c.inputs.size(); ++i) all = (all.*combine)(c.x(i));
  return {all};
}

Outputs mean_of_all(const Call& c) {
  return {folded<&Tensor::add>(c)[0].tensor() / static_cast<double>(c.inputs.size())};
}

// A bound that is absent bounds nothing.
Outputs clip(const Call& c) {
  Tensor x = c.x(0);
  if (c.version < 11) {
    if (c.has_attribute("min")) x = x.maximum(c.number("min"));
    if (c.has_attribute("max")) x = x.minimum(c.number("max"));
    return {x.cast(c.x(0).dtype())};
  }
  if (c.has(1)) x = x.maximum(c.x(1));
  if (c.has(2)) x = x.minimum(c.x(2));
  return {x};
}

Outputs is_infinite(const Call& c) {
  const bool up = c.integer("detect_positive", 1) != 0, down = c.integer("detect_negative", 1) != 0;
  const Tensor &x = c.x(0), infinite = x.isinf();
  if (up && down) return {infinite};
  if (!up && !down) return {x.zeros_like({.dtype = dtypes::bool_})};
  return {infinite.bitwise_and(up ? x.gt(0) : x.lt(0))};
}

// clang-format off
#define LATHE_ONNX_UNARY(name, method) {name, 1, [](const Call& c) -> Outputs { return {c.x(0).method()}; }}
#define LATHE_ONNX_BINARY(name, method) {name, 1, [](const Call& c) -> Outputs { return {c.x(0).method(second_operand(c))}; }}
constexpr OpRow kRows[] = {
    LATHE_ONNX_UNARY("Abs", abs), LATHE_ONNX_UNARY("Acos", acos), LATHE_ONNX_UNARY("Acosh", acosh),
    LATHE_ONNX_UNARY("Asin", asin), LATHE_ONNX_UNARY("Asinh", asinh), LATHE_ONNX_UNARY("Atan", atan),
    LATHE_ONNX_UNARY("Atanh", atanh), LATHE_ONNX_UNARY("Ceil", ceil), LATHE_ONNX_UNARY("Cos", cos),
    LATHE_ONNX_UNARY("Cosh", cosh), LATHE_ONNX_UNARY("Erf", erf), LATHE_ONNX_UNARY("Exp", exp),
    LATHE_ONNX_UNARY("Floor", floor), LATHE_ONNX_UNARY("Log", log), LATHE_ONNX_UNARY("Neg", neg),
    LATHE_ONNX_UNARY("Reciprocal", reciprocal), LATHE_ONNX_UNARY("Round", round), LATHE_ONNX_UNARY("Sign", sign),
    LATHE_ONNX_UNARY("Sin", sin), LATHE_ONNX_UNARY("Sinh", sinh), LATHE_ONNX_UNARY("Sqrt", sqrt),
    LATHE_ONNX_UNARY("Tan", tan), LATHE_ONNX_UNARY("Tanh", tanh), LATHE_ONNX_UNARY("IsNaN", isnan),
    LATHE_ONNX_UNARY("Not", logical_not), LATHE_ONNX_UNARY("BitwiseNot", bitwise_not),
    LATHE_ONNX_BINARY("Add", add), LATHE_ONNX_BINARY("Sub", sub), LATHE_ONNX_BINARY("Mul", mul),
    LATHE_ONNX_BINARY("And", bitwise_and), LATHE_ONNX_BINARY("Or", bitwise_or), LATHE_ONNX_BINARY("Xor", bitwise_xor),
    LATHE_ONNX_BINARY("BitwiseAnd", bitwise_and), LATHE_ONNX_BINARY("BitwiseOr", bitwise_or),
    LATHE_ONNX_BINARY("BitwiseXor", bitwise_xor), LATHE_ONNX_BINARY("Less", lt), LATHE_ONNX_BINARY("Greater", gt),
    LATHE_ONNX_BINARY("LessOrEqual", le), LATHE_ONNX_BINARY("GreaterOrEqual", ge),
    {"Equal", 1, [](const Call& c) -> Outputs {
       if (c.value(0).kind() == Value::Kind::Strings) return equal_strings(c);
       return {c.x(0).eq(second_operand(c))}; }},
    {"Div", 1, integer_or_float_quotient},
    {"Mod", 10, remainder},
    {"Pow", 1, power},
    {"BitShift", 11, shifted},
    {"Sum", 1, folded<&Tensor::add>},
    {"Max", 1, folded<&Tensor::maximum>},
    {"Min", 1, folded<&Tensor::minimum>},
    {"Mean", 1, mean_of_all},
    {"Clip", 1, clip},
    {"IsInf", 10, is_infinite},
    {"Where", 9, [](const Call& c) -> Outputs { return {c.x(0).where(c.x(1), c.x(2))}; }},
};
#undef LATHE_ONNX_UNARY
#undef LATHE_ONNX_BINARY
// clang-format on

}  // namespace

// Before version 7 the second operand is only broadcast on request, and its axes may begin in the middle.
Tensor second_operand(const Call& c) {
  const Tensor& y = c.x(1);
  if (c.version >= 7 || !c.node.domain.empty() || !c.has_attribute("axis") || c.integer("broadcast", 0) == 0)
    return y;
  const std::int64_t rank = c.x(0).ndim();
  Shape shape = y.shape();
  const std::int64_t axis = c.axis(c.integer("axis"), rank), missing = rank - axis - y.ndim();
  if (missing < 0) c.fail("the second operand reaches past the axes of the first");
  for (std::int64_t i = 0; i < missing; ++i) shape.emplace_back(1);
  return y.reshape(shape);
}

OpTable elementwise_ops() { return {"", "elementwise", kRows}; }

}  // namespace lathe::onnx
