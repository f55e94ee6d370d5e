// com.microsoft: what its exporters and optimizers put into files.
#include <fmt/format.h>

#include <cmath>

#include "formats/onnx/ops/attention.h"
#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

Outputs fused_matmul(const Call& c) {
  auto operand = [&](std::size_t i, const char* flag) {
    return c.integer(flag, 0) != 0 ? c.x(i).transpose(-1, -2) : c.x(i);
  };
  const Tensor y = operand(0, "transA").matmul(operand(1, "transB"));
  const double alpha = c.number("alpha", 1.0);
  return {alpha == 1 ? y : (y * alpha).cast(y.dtype())};
}

Tensor tanh_gelu(const Tensor& x) { return x.gelu("tanh"); }

Outputs bias_gelu(const Call& c) { return {(c.x(0) + c.x(1)).gelu("none")}; }
Outputs fast_gelu(const Call& c) { return {tanh_gelu(c.has(1) ? c.x(0) + c.x(1) : c.x(0))}; }

Outputs quick_gelu(const Call& c) { return {c.x(0) * (c.x(0) * c.number("alpha", 1.702)).sigmoid()}; }

// The sum of two inputs and a bias, normalised; the sum itself is the last output.
Outputs skip_layer_norm(const Call& c) {
  Tensor sum = c.x(0) + c.x(1);
  if (c.has(4)) sum = sum + c.x(4);
  Tensor mean, inverse;
  const Tensor* bias = c.has(3) ? &c.x(3) : nullptr;
  const Tensor y =
      layer_norm(sum, sum.ndim() - 1, c.number("epsilon", 1e-12), &c.x(2), bias, &mean, &inverse);
  return {y, mean, inverse, sum};
}

Outputs skip_rms_norm(const Call& c) {
  Tensor sum = c.x(0) + c.x(1);
  if (c.has(3)) sum = sum + c.x(3);
  return {rms_norm(sum, sum.ndim() - 1, c.number("epsilon", 1e-12), c.x(2)), Value(), Value(), sum};
}

Outputs rms(const Call& c) {
  return {rms_norm(c.x(0), c.axis(c.integer("axis", -1), c.x(0).ndim()), c.number("epsilon", 1e-5), c.x(1))};
}

Outputs fused_conv(const Call& c) {
  const Tensor* bias = c.has(2) ? &c.x(2) : nullptr;
  Tensor y = convolution(c, c.x(0), c.x(1), bias);
  if (c.has(3)) y = y + c.x(3);
  const std::string name = c.text("activation", "");
  if (name.empty()) return {y};
  const std::vector<double> given = c.floats("activation_params");
  if (name == "Clip") return {given.size() == 2 ? y.clamp(given[0], given[1]) : y};
  const auto [alpha, beta] = activation_defaults(name);
  return {activation(c, name, y, !given.empty() ? given[0] : alpha, given.size() > 1 ? given[1] : beta)};
}

// Quantised operators that compute in floats between reading and writing.
Tensor real(const Call& c, std::size_t first) {
  return dequantised(c, c.x(first), c.x(first + 1), c.has(first + 2) ? c.value(first + 2) : Value(), 1);
}

Outputs written(const Call& c, const Tensor& y, std::size_t scale) {
  const DataType to = c.has(scale + 1) ? c.x(scale + 1).dtype() : c.x(0).dtype();
  return {quantised(c, y, c.x(scale), c.has(scale + 1) ? c.value(scale + 1) : Value(), 1, to)};
}

Outputs qlinear_concat(const Call& c) {
  std::vector<Tensor> parts;
  for (std::size_t i = 2; i + 2 < c.inputs.size(); i += 3) parts.push_back(real(c, i));
  if (parts.empty()) c.fail("there is nothing to join");
  const Tensor y = Tensor::cat(parts, c.axis(c.integer("axis"), parts[0].ndim()));
  return {quantised(c, y, c.x(0), c.value(1), 1, c.x(1).dtype())};
}

Outputs qlinear_global_average(const Call& c) {
  const bool last = c.integer("channels_last", 0) != 0;
  const Tensor x = real(c, 0);
  Numbers axes;
  for (std::int64_t i = last ? 1 : 2; i < x.ndim() - (last ? 1 : 0); ++i) axes.push_back(i);
  return written(c, x.mean(axes, true), 3);
}

Outputs matmul_integer_to_float(const Call& c) {
  const Tensor a = dequantised(c, c.x(0), c.x(2), c.has(4) ? c.value(4) : Value(), -2);
  const Tensor b = dequantised(c, c.x(1), c.x(3), c.has(5) ? c.value(5) : Value(), -1);
  const Tensor y = a.matmul(b);
  return {c.has(6) ? y + c.x(6) : y};
}

// 4-bit weights in blocks along the inner axis: (n, blocks, bytes) with a scale per block.
Outputs matmul_nbits(const Call& c) {
  const std::int64_t k = c.integer("K"), n = c.integer("N"), bits = c.integer("bits", 4),
                     block = c.integer("block_size");
  if (bits != 4) c.not_supported(fmt::format("weights of {} bits", bits));
  if (k < 1 || n < 1 || block < 2) c.fail("K, N or block_size is out of range");
  const std::int64_t blocks = (k + block - 1) / block;
  const Tensor& packed = c.x(1);
  const Tensor bytes = packed.reshape({n, blocks, block / 2, 1});
  const Tensor values = Tensor::cat({bytes.bitwise_and(15), bytes.rshift(4)}, 3).reshape({n, blocks, block});
  const Tensor& a = c.x(0);
  Tensor zero = Tensor::full({1, 1, 1}, 8.0, {.dtype = a.dtype(), .device = c.device()});
  if (c.has(3) && c.x(3).is_floating_point()) zero = c.x(3).reshape({n, blocks, 1});
  if (c.has(3) && !c.x(3).is_floating_point()) {
    const Tensor z = c.x(3).reshape({n, (blocks + 1) / 2, 1});
    zero = sliced(Tensor::cat({z.bitwise_and(15), z.rshift(4)}, 2).reshape({n, -1}), 1, 0, blocks)
               .reshape({n, blocks, 1})
               .cast(a.dtype());
  }
  const Tensor weight =
      ((values.cast(a.dtype()) - zero) * c.x(2).reshape({n, blocks, 1})).reshape({n, blocks * block});
  const Tensor y = a.matmul(sliced(weight, 1, 0, k).T());
  return {c.has(5) ? y + c.x(5) : y};
}

Outputs rotary(const Call& c) {
  const Tensor& x = c.x(0);
  const bool flat = x.ndim() == 3;
  std::int64_t heads = c.integer("num_heads", 0);
  const std::int64_t half = concrete(c.x(2).size(-1), c, "the table");
  if (flat && heads == 0) heads = concrete(x.size(2), c, "the width") / (2 * half);
  if (flat && heads < 1) c.fail("the number of heads is out of range");
  const Tensor split = flat ? x.reshape({x.size(0), x.size(1), heads, -1}).permute({0, 2, 1, 3}) : x;
  Tensor positions = c.x(1);
  const Size length = split.size(2);
  if (positions.numel() == 1)
    positions = Tensor::arange(length.value(), {.dtype = dtypes::int64, .device = c.device()}).unsqueeze(0) +
                positions.reshape({}).cast(dtypes::int64);
  const Tensor y = rotated(c, split, c.x(2), c.x(3), &positions, c.integer("interleaved", 0) != 0,
                           c.integer("rotary_embedding_dim", 0));
  return {flat ? y.permute({0, 2, 1, 3}).reshape(x.shape()) : y};
}

// Query, key and value from three inputs of (batch, length, width).
Outputs multi_head_attention(const Call& c) {
  if (!c.has(1) || !c.has(2) || c.x(0).ndim() != 3)
    c.not_supported("packed queries, keys and values are not read");
  for (std::size_t i : {4, 6, 7})
    if (c.has(i)) c.not_supported(fmt::format("input {} is not read", i));
  const std::int64_t heads = c.integer("num_heads");
  if (heads < 1) c.fail("num_heads is out of range");
  Tensor bias[3];
  if (c.has(3)) {
    const Size width = c.x(0).size(2);
    for (int i = 0; i < 3; ++i) bias[i] = sliced(c.x(3), 0, width * i, width * (i + 1));
  }
  auto part = [&](std::size_t i) {
    const Tensor x = bias[i].defined() ? c.x(i) + bias[i] : c.x(i);
    return x.reshape({x.size(0), x.size(1), heads, -1}).permute({0, 2, 1, 3});
  };
  const Tensor q = part(0), k = part(1), v = part(2);
  AttentionOptions options;
  options.causal = c.integer("unidirectional", 0) != 0;
  if (c.has_attribute("scale") && c.number("scale") != 0) options.scale = c.number("scale");
  if (c.has(5)) options.mask = &c.x(5);
  const Tensor y = q.scaled_dot_product_attention(k, v, options);
  return {y.permute({0, 2, 1, 3}).reshape({y.size(0), y.size(2), y.size(1) * y.size(3)})};
}

// clang-format off
const OpRow kRows[] = {
    {"FusedMatMul", 1, fused_matmul},
    {"Gelu", 1, [](const Call& c) -> Outputs { return {c.x(0).gelu("none")}; }},
    {"BiasGelu", 1, bias_gelu}, {"FastGelu", 1, fast_gelu}, {"QuickGelu", 1, quick_gelu},
    {"SkipLayerNormalization", 1, skip_layer_norm}, {"SkipSimplifiedLayerNormalization", 1, skip_rms_norm},
    {"SimplifiedLayerNormalization", 1, rms},
    {"FusedConv", 1, fused_conv},
    {"QLinearAdd", 1, [](const Call& c) -> Outputs { return written(c, real(c, 0) + real(c, 3), 6); }},
    {"QLinearMul", 1, [](const Call& c) -> Outputs { return written(c, real(c, 0) * real(c, 3), 6); }},
    {"QLinearSigmoid", 1, [](const Call& c) -> Outputs { return written(c, real(c, 0).sigmoid(), 3); }},
    {"QLinearLeakyRelu", 1, [](const Call& c) -> Outputs { return written(c, real(c, 0).leaky_relu(c.number("alpha", 0.01)), 3); }},
    {"QLinearConcat", 1, qlinear_concat}, {"QLinearGlobalAveragePool", 1, qlinear_global_average},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float}, {"MatMulNBits", 1, matmul_nbits},
    {"RotaryEmbedding", 1, rotary}, {"MultiHeadAttention", 1, multi_head_attention},
};
// clang-format on

}  // namespace

OpTable microsoft_ops() { return {"com.microsoft", "com.microsoft", kRows}; }

}  // namespace lathe::onnx
