// Quantised numbers: real = (q - zero) * scale.
#include <fmt/format.h>

#include <algorithm>

#include "formats/onnx/evaluator.h"
#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// A scale or zero point spread over the tensor it belongs to: one for all, one per position of an axis, or
// one per block of an axis.
Tensor spread(const Call& c, const Tensor& t, const Tensor& x, std::int64_t axis, std::int64_t block) {
  if (t.ndim() == 0 || (t.numel() == 1 && block == 0)) return t.reshape({});
  if (block == 0) return along(t, c.axis(axis, x.ndim()), x.ndim());
  const std::int64_t at = c.axis(axis, x.ndim());
  return sliced(t.repeat_interleave(block, at), at, 0, x.size(at));
}

DataType scale_dtype(const Tensor& scale) {
  return scale.dtype().bitsize() < 32 ? dtypes::float32 : scale.dtype();
}

// The nearest integer within these limits, of two the even one, and 0 for NaN. A sum with 1.5 * 2^23 is
// rounded to an integer: fewer operations than round().
Tensor nearest_whole(const Tensor& x, double least, double most) {
  constexpr double kWhole = 0x1.8p23;
  const Tensor limited = x.maximum(least).minimum(most);
  return (limited.isnan().where(0, limited) + kWhole - kWhole).cast(dtypes::int32);
}

// Known to be zero without reading memory.
bool is_zero(const Value& zero) {
  if (zero.kind() == Value::Kind::None) return true;
  return zero.known() && !zero.known()->is_float() &&
         std::all_of(zero.known()->sizes.begin(), zero.known()->sizes.end(),
                     [](const Size& s) { return s == 0; });
}

Outputs dequantize(const Call& c) {
  const Value zero = c.has(2) ? c.value(2) : Value();
  const std::int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const Tensor y = dequantised(c, c.x(0), c.x(1), zero, axis, block);
  if (c.has_attribute("output_dtype") && c.integer("output_dtype") != 0)
    return {y.cast(dtype_for(static_cast<Element>(c.integer("output_dtype")), c))};
  c.evaluator.note_quantised({y, c.x(0), c.x(1), zero, axis, block, c.evaluator.is_constant(c.value(1))});
  return {y};
}

// Divided by its scale, then rounded and limited.
Tensor stored(const Call& c, const Tensor& divided, const Value& zero, std::int64_t axis, DataType to,
              std::int64_t block) {
  const DataType wide = divided.dtype();
  const bool shifted = zero.kind() != Value::Kind::None;
  if (to.is_float()) {
    const Tensor y = shifted ? divided + spread(c, zero.tensor().cast(wide), divided, axis, block) : divided;
    const double most = dtypes::finfo(to).max;
    return y.isnan().where(y, y.clamp(-most, most)).cast(to);
  }
  const auto least = static_cast<double>(dtypes::min(to).to_int()),
             most = static_cast<double>(dtypes::max(to).to_int());
  if (to.bitsize() > 16 || wide != dtypes::float32) {
    Tensor y = divided.round();
    if (shifted) y = y + spread(c, zero.tensor().cast(wide), y, axis, block);
    return y.clamp(least, most).cast(to);
  }
  if (is_zero(zero)) return nearest_whole(divided, least, most).cast(to);
  constexpr double kBeyond = 1 << 18;  // any zero point
  const Tensor whole = nearest_whole(divided, -kBeyond, kBeyond) +
                       spread(c, zero.tensor().cast(dtypes::int32), divided, axis, block);
  return whole.clamp(dtypes::min(to), dtypes::max(to)).cast(to);
}

// A scaled sum of integers divided by another scale: both scales are one constant.
std::optional<Tensor> divided_sum(const Call& c) {
  const ScaledSum* sum = c.evaluator.scaled_sum(c.x(0));
  const Tensor& scale = c.x(1);
  if (sum == nullptr || scale.numel() != 1 || scale.dtype() != dtypes::float32) return std::nullopt;
  const std::shared_ptr<const Known>& known = c.value(1).known();
  if (!known || !(known->floats.at(0) > 0)) return std::nullopt;
  const auto over_scale = [&](const char* what, const Tensor& t) {
    return c.evaluator.kept(c, sum->weight, what, [&] { return t / scale.reshape({}); });
  };
  Tensor y = sum->integers.cast(dtypes::float32) * over_scale("divided scale", sum->scale);
  if (sum->bias.defined()) y = y + over_scale("divided bias", sum->bias);
  return sum->positive ? y.maximum(0) : y;
}

Outputs quantize(const Call& c) {
  DataType to = c.has(2) ? c.x(2).dtype() : dtypes::uint8;
  if (!c.has(2) && c.integer("output_dtype", 0) != 0)
    to = dtype_for(static_cast<Element>(c.integer("output_dtype")), c);
  // Stored: what reads it reads each element many times, and would round and scale it each time.
  const Value zero = c.has(2) ? c.value(2) : Value();
  const std::int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const std::optional<Tensor> sum = divided_sum(c);
  const Tensor y =
      (sum ? stored(c, *sum, zero, axis, to, block) : quantised(c, c.x(0), c.x(1), zero, axis, to, block))
          .contiguous();
  switch (c.evaluator.narrow_element(c.node.outputs[0])) {  // in 8 bits, and no wider than 4
    case Element::Int4: return {y.clamp(-8, 7)};
    case Element::Uint4: return {y.clamp(0, 15)};
    default: return {y};
  }
}

Outputs dynamic_quantize(const Call& c) {
  const Tensor& x = c.x(0);
  const Tensor high = x.max().maximum(0), low = x.min().minimum(0);
  const Tensor scale = (high - low) / 255.0;
  const Tensor safe = scale.eq(0).where(1, scale);
  const Tensor zero = (low.neg() / safe).round().clamp(0, 255);
  const Tensor y = ((x / safe).round() + zero).clamp(0, 255);
  return {y.cast(dtypes::uint8), scale, zero.cast(dtypes::uint8)};
}

Tensor centered(const Call& c, const Tensor& q, std::size_t zero, std::int64_t axis) {
  const Tensor wide = q.cast(dtypes::int32);
  return c.has(zero) ? wide - spread(c, c.x(zero).cast(dtypes::int32), q, axis, 0) : wide;
}

// A zero point of the left matrix is one per row, of the right one per column.
Tensor centered_left(const Call& c, std::size_t input, std::size_t zero) {
  const Tensor wide = c.x(input).cast(dtypes::int32);
  if (!c.has(zero)) return wide;
  const Tensor z = c.x(zero).cast(dtypes::int32);
  return wide - (z.ndim() == 1 && !(z.numel() == 1) ? z.unsqueeze(1) : z.numel() == 1 ? z.reshape({}) : z);
}

Tensor centered_right(const Call& c, std::size_t input, std::size_t zero) {
  const Tensor wide = c.x(input).cast(dtypes::int32);
  if (!c.has(zero)) return wide;
  const Tensor z = c.x(zero).cast(dtypes::int32);
  return wide - (z.numel() == 1 ? z.reshape({}) : z);
}

Outputs matmul_integer(const Call& c) {
  return {quantised_product(c, centered_left(c, 0, 2), centered_right(c, 1, 3))};
}

// Rescaling happens in floats, and only the result is rounded.
Outputs qlinear_matmul(const Call& c) {
  const Tensor product =
      quantised_product(c, centered_left(c, 0, 2), centered_right(c, 3, 5)).cast(dtypes::float32);
  auto column = [](const Tensor& t) {
    return t.numel() == 1 ? t.reshape({}) : t.ndim() == 1 ? t.unsqueeze(1) : t;
  };
  const Tensor b_scale = c.x(4).numel() == 1 ? c.x(4).reshape({}) : c.x(4);
  const Tensor real = product * (column(c.x(1)).cast(dtypes::float32) * b_scale.cast(dtypes::float32));
  return {quantised(c, real, c.x(6), c.value(7), -1, c.x(7).dtype())};
}

Outputs conv_integer(const Call& c) {
  return {convolution(c, centered(c, c.x(0), 2, 1), centered(c, c.x(1), 3, 0), nullptr)};
}

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias in int32 of scale x_scale * w_scale.
Outputs qlinear_conv(const Call& c) {
  Tensor sum = convolution(c, centered(c, c.x(0), 2, 1), centered(c, c.x(3), 5, 0), nullptr);
  if (c.has(8)) sum = sum + along(c.x(8), 1, sum.ndim());
  const Tensor& w_scale = c.x(4);
  const Tensor scale =
      c.x(1).reshape({}) * (w_scale.numel() == 1 ? w_scale.reshape({}) : along(w_scale, 1, sum.ndim()));
  return {quantised(c, sum.cast(dtypes::float32) * scale, c.x(6), c.value(7), -1, c.x(7).dtype())};
}

// clang-format off
const OpRow kRows[] = {
    {"DequantizeLinear", 10, dequantize}, {"QuantizeLinear", 10, quantize},
    {"DynamicQuantizeLinear", 11, dynamic_quantize}, {"MatMulInteger", 10, matmul_integer},
    {"QLinearMatMul", 10, qlinear_matmul}, {"ConvInteger", 10, conv_integer}, {"QLinearConv", 10, qlinear_conv},
};
// clang-format on

}  // namespace

Tensor quantised_product(const Call&, const Tensor& a, const Tensor& b) {
  return a.matmul(b).cast(dtypes::int32);
}

Tensor dequantised(const Call& c, const Tensor& q, const Tensor& scale, const Value& zero, std::int64_t axis,
                   std::int64_t block) {
  const DataType wide = scale_dtype(scale);
  Tensor real;
  if (zero.kind() == Value::Kind::None || q.dtype() == dtypes::int32 || q.is_floating_point())
    real = q.cast(wide);
  else
    real = (q.cast(dtypes::int32) - spread(c, zero.tensor().cast(dtypes::int32), q, axis, block)).cast(wide);
  return (real * spread(c, scale.cast(wide), q, axis, block)).cast(scale.dtype());
}

// Halves round to even, and what does not fit the dtype takes its nearest end.
Tensor quantised(const Call& c, const Tensor& x, const Tensor& scale, const Value& zero, std::int64_t axis,
                 DataType to, std::int64_t block) {
  const DataType wide = scale_dtype(scale);
  return stored(c, x.cast(wide) / spread(c, scale.cast(wide), x, axis, block), zero, axis, to, block);
}

OpTable quantised_ops() { return {"", "quantised", kRows}; }

}  // namespace lathe::onnx
