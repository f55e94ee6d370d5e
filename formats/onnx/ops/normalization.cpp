// Normalizations.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

Numbers axes_but(std::int64_t rank, const Numbers& left_out) {
  Numbers axes;
  for (std::int64_t i = 0; i < rank; ++i)
    if (std::find(left_out.begin(), left_out.end(), i) == left_out.end()) axes.push_back(i);
  return axes;
}

Outputs batch_norm(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t rank = x.ndim();
  const double epsilon = c.number("epsilon", 1e-5), momentum = c.number("momentum", 0.9);
  auto spread = [&](const Tensor& t) { return rank < 2 || t.ndim() != 1 ? t : along(t, 1, rank); };
  const bool training = c.integer("training_mode", 0) != 0;
  const DataType wide = x.dtype().bitsize() < 32 ? dtypes::float32 : x.dtype();
  Tensor mean = c.x(3).cast(wide), variance = c.x(4).cast(wide);
  Outputs out(1);
  if (training) {
    const Numbers axes = axes_but(rank, {1});
    const Tensor own_mean = x.cast(wide).mean(axes), own_variance = x.cast(wide).var(axes, false, 0);
    out.emplace_back((mean * momentum + own_mean * (1 - momentum)).cast(c.x(3).dtype()));
    out.emplace_back((variance * momentum + own_variance * (1 - momentum)).cast(c.x(4).dtype()));
    mean = own_mean;
    variance = own_variance;
  }
  // One factor and one term per channel, which a convolution before can take into its epilogue.
  const Tensor factor = c.x(1).cast(wide) * (variance + epsilon).rsqrt();
  const Tensor term = c.x(2).cast(wide) - mean * factor;
  out[0] = (x.cast(wide) * spread(factor) + spread(term)).cast(x.dtype());
  return out;
}

Outputs instance_norm(const Call& c) {
  const Tensor& x = c.x(0);
  const Numbers axes = axes_but(x.ndim(), {0, 1});
  const Tensor centered = x - x.mean(axes, true);
  const Tensor variance = centered.square().mean(axes, true);
  return {centered * (variance + c.number("epsilon", 1e-5)).rsqrt() * along(c.x(1), 1, x.ndim()) +
          along(c.x(2), 1, x.ndim())};
}

Outputs layer_normalization(const Call& c) {
  Tensor mean, inverse;
  const Tensor& x = c.x(0);
  const Tensor *scale = c.has(1) ? &c.x(1) : nullptr, *bias = c.has(2) ? &c.x(2) : nullptr;
  const Tensor y = layer_norm(x, c.axis(c.integer("axis", -1), x.ndim()), c.number("epsilon", 1e-5), scale,
                              bias, &mean, &inverse);
  return {y, mean, inverse};
}

Outputs group_norm(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t groups = c.integer("num_groups"), channels = concrete(x.size(1), c, "the channels");
  if (groups < 1 || channels % groups != 0)
    c.fail(fmt::format("{} channels do not make {} groups", channels, groups));
  const DataType wide = x.dtype().bitsize() < 32 ? dtypes::float32 : x.dtype();
  const Tensor parts = x.cast(wide).reshape({x.size(0), groups, -1});
  const Tensor centered = parts - parts.mean(-1, true);
  Tensor y = (centered * (centered.square().mean(-1, true) + c.number("epsilon", 1e-5)).rsqrt());
  // Scale and bias are per group in version 18 and per channel after.
  auto spread = [&](const Tensor& t) { return t.cast(wide).reshape({1, -1, 1}); };
  if (c.version < 21) return {(y * spread(c.x(1)) + spread(c.x(2))).reshape(x.shape()).cast(x.dtype())};
  y = y.reshape({x.size(0), channels, -1}).cast(x.dtype()).cast(wide);
  return {(y * spread(c.x(1)) + spread(c.x(2))).reshape(x.shape()).cast(x.dtype())};
}

// The sum of squares over neighbouring channels is a pool of size (size, 1) over the channels as an image
// axis.
Outputs local_response(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t size = c.integer("size");
  if (size < 1 || size > (1 << 20)) c.fail("size is out of range");
  const double alpha = c.number("alpha", 0.0001), beta = c.number("beta", 0.75), bias = c.number("bias", 1.0);
  const std::int64_t before = (size - 1) / 2, after = size - 1 - before;
  const Tensor squares = padded(x.square(), 1, before, after);
  Tensor sum;
  for (std::int64_t k = 0; k < size; ++k) {
    const Tensor part = sliced(squares, 1, k, x.size(1) + k);
    sum = sum.defined() ? sum + part : part;
  }
  return {x / (sum * (alpha / static_cast<double>(size)) + bias).pow(beta)};
}

Outputs lp_norm(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer("axis", -1), x.ndim()), p = c.integer("p", 2);
  if (p != 1 && p != 2) c.fail("p is 1 or 2");
  const Tensor norm = p == 1 ? x.abs().sum(axis, true) : x.square().sum(axis, true).sqrt();
  return {norm.eq(0).where(0, x / norm.eq(0).where(1, norm)).cast(x.dtype())};
}

Outputs mean_variance(const Call& c) {
  const Tensor& x = c.x(0);
  const Numbers axes = c.axes(c.ints("axes", {0, 2, 3}), x.ndim());
  const Tensor centered = x - x.mean(axes, true);
  return {centered / (centered.square().mean(axes, true).sqrt() + 1e-9)};
}

// clang-format off
const OpRow kRows[] = {
    {"BatchNormalization", 1, batch_norm},
    {"InstanceNormalization", 1, instance_norm},
    {"LayerNormalization", 1, layer_normalization},
    {"GroupNormalization", 18, group_norm},
    {"RMSNormalization", 23, [](const Call& c) -> Outputs {
       return {rms_norm(c.x(0), c.axis(c.integer("axis", -1), c.x(0).ndim()), c.number("epsilon", 1e-5), c.x(1))}; }},
    {"SimplifiedLayerNormalization", 1, [](const Call& c) -> Outputs {  // a name of RMSNormalization that exporters use
       return {rms_norm(c.x(0), c.axis(c.integer("axis", -1), c.x(0).ndim()), c.number("epsilon", 1e-5), c.x(1))}; }},
    {"LRN", 1, local_response},
    {"LpNormalization", 1, lp_norm},
    {"MeanVarianceNormalization", 9, mean_variance},
};
// clang-format on

Numbers axes_from(std::int64_t axis, std::int64_t rank) {
  Numbers axes(static_cast<std::size_t>(rank - axis));
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

}  // namespace

Tensor layer_norm(const Tensor& x, std::int64_t axis, double epsilon, const Tensor* scale, const Tensor* bias,
                  Tensor* mean, Tensor* inverse_deviation) {
  const DataType wide = x.dtype().bitsize() < 32 ? dtypes::float32 : x.dtype();
  const Numbers axes = axes_from(axis, x.ndim());
  const Tensor middle = x.cast(wide).mean(axes, true), centered = x.cast(wide) - middle;
  const Tensor inverse = (centered.square().mean(axes, true) + epsilon).rsqrt();
  if (mean != nullptr) *mean = middle;
  if (inverse_deviation != nullptr) *inverse_deviation = inverse;
  Tensor y = centered * inverse;
  if (scale != nullptr) y = y * scale->cast(wide);
  if (bias != nullptr) y = y + bias->cast(wide);
  return y.cast(x.dtype());
}

Tensor rms_norm(const Tensor& x, std::int64_t axis, double epsilon, const Tensor& scale) {
  const DataType wide = x.dtype().bitsize() < 32 ? dtypes::float32 : x.dtype();
  const Tensor w = x.cast(wide);
  return (w * (w.square().mean(axes_from(axis, x.ndim()), true) + epsilon).rsqrt() * scale.cast(wide))
      .cast(x.dtype());
}

OpTable normalization_ops() { return {"", "normalizations", kRows}; }

}  // namespace lathe::onnx
