#include "lathe/nn/normalization.h"

#include <fmt/format.h>

#include "lathe/unsaid_mode.h"
#include "nn/initial.h"

namespace lathe::nn {
namespace {

const Tensor* or_null(const Tensor& t) { return t.defined() ? &t : nullptr; }

// A tensor of one value per channel, shaped to be beside x (channels on axis 1).
Tensor per_channel(const Tensor& values, const Tensor& x) {
  Shape shape(static_cast<std::size_t>(x.ndim()), Size(1));
  shape[1] = values.size(0);
  return values.reshape(shape);
}

void check_channels(std::string_view layer, const Tensor& x, std::int64_t channels) {
  if (x.ndim() < 2 || !(x.size(1) == channels))
    throw UserError(layer, fmt::format("the input has shape {}, axis 1 should have {} channels",
                                       to_string(x.shape()), channels));
}

}  // namespace

BatchNorm::BatchNorm(std::int64_t channels, const BatchNormOptions& opts) : options(opts) {
  check_positive("BatchNorm", "channels", channels);
  if (options.affine) {
    weight = constant_parameter({channels}, 1);
    bias = constant_parameter({channels}, 0);
  }
  if (options.track_running_stats) {
    running_mean = buffer(Tensor::zeros({channels}));
    running_var = buffer(Tensor::ones({channels}));
    num_batches_tracked = buffer(Tensor::zeros({}, {.dtype = dtypes::int64}));
  }
}

void BatchNorm::parts(Parts& p) {
  p("weight", weight)("bias", bias)("running_mean", running_mean)("running_var", running_var);
  p("num_batches_tracked", num_batches_tracked);
}

std::pair<Tensor, Tensor> BatchNorm::batch_statistics(const Tensor& x) const {
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 0; axis < x.ndim(); ++axis)
    if (axis != 1) axes.push_back(axis);
  const Tensor mean = x.mean(axes);
  return {mean, (x - per_channel(mean, x)).square().mean(axes)};
}

// The running variance is the unbiased one, as users of PyTorch's files expect.
void BatchNorm::track(const Tensor& mean, const Tensor& var, double count) {
  NoGradScope no_grad;
  const double unbias = count > 1 ? count / (count - 1) : 1;
  num_batches_tracked += 1;
  if (count == 0) return;  // a batch without elements says nothing
  const auto mix = [&](Tensor& running, const Tensor& now, double scale) {
    if (options.momentum) {
      const double share = *options.momentum;
      running.assign(running * (1 - share) + now.detach() * (share * scale));
    } else {
      const Tensor share = 1.0 / num_batches_tracked.cast(running.dtype());
      running.assign(running * (1.0 - share) + now.detach() * scale * share);
    }
  };
  mix(running_mean, mean, 1);
  mix(running_var, var, unbias);
}

Tensor BatchNorm::operator()(const Tensor& x) {
  const std::int64_t channels = options.track_running_stats ? running_mean.size(0).value()
                                : options.affine            ? weight.size(0).value()
                                                            : x.size(1).value();
  check_channels("BatchNorm", x, channels);
  if (options.track_running_stats && !training()) {
    const Tensor invstd = (running_var + options.eps).rsqrt();
    const Tensor normed = x.batchnorm(or_null(weight), or_null(bias), running_mean, invstd);
    return told() ? normed : with_unsaid_mode(normed);
  }
  const auto [mean, var] = batch_statistics(x);
  if (options.track_running_stats) track(mean, var, static_cast<double>(x.numel().max() / channels));
  return x.batchnorm(or_null(weight), or_null(bias), mean, (var + options.eps).rsqrt());
}

GroupNorm::GroupNorm(std::int64_t g, std::int64_t channels, double e, bool affine) : groups(g), eps(e) {
  check_positive("GroupNorm", "groups", groups);
  check_positive("GroupNorm", "channels", channels);
  if (channels % groups != 0)
    throw UserError("GroupNorm", fmt::format("{} channels do not divide into {} groups", channels, groups));
  if (affine) {
    weight = constant_parameter({channels}, 1);
    bias = constant_parameter({channels}, 0);
  }
}

Tensor GroupNorm::operator()(const Tensor& x) const {
  if (x.numel() == 0) return x;  // an empty batch leaves open what a group has
  const Tensor normed = x.reshape({x.size(0), groups, -1}).layernorm(-1, eps).reshape(x.shape());
  if (!weight.defined()) return normed;
  check_channels("GroupNorm", x, weight.size(0).value());
  return normed * per_channel(weight, x) + per_channel(bias, x);
}

LayerNorm::LayerNorm(const Ints& sizes, double e, bool elementwise_affine) : normalized_shape(sizes), eps(e) {
  if (sizes.empty()) throw UserError("LayerNorm", "there is no axis to normalize over");
  for (std::int64_t size : sizes) check_positive("LayerNorm", "a size", size);
  if (!elementwise_affine) return;
  const Shape shape(sizes.begin(), sizes.end());
  weight = constant_parameter(shape, 1);
  bias = constant_parameter(shape, 0);
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const auto count = static_cast<std::int64_t>(normalized_shape.size());
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 0; i < count; ++i) {
    axes.push_back(i - count);
    if (x.ndim() < count || !(x.size(i - count) == normalized_shape[static_cast<std::size_t>(i)]))
      throw UserError("LayerNorm",
                      fmt::format("the input has shape {}, its last sizes should be {}", to_string(x.shape()),
                                  to_string(Shape(normalized_shape.begin(), normalized_shape.end()))));
  }
  const Tensor normed = x.layernorm(axes, eps);
  return weight.defined() ? normed * weight + bias : normed;
}

Tensor LayerNorm2d::operator()(const Tensor& x) const {
  return LayerNorm::operator()(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
}

RMSNorm::RMSNorm(std::int64_t dim, double e, bool elementwise_affine) : eps(e) {
  check_positive("RMSNorm", "dim", dim);
  if (elementwise_affine) weight = constant_parameter({dim}, 1);
}

Tensor RMSNorm::operator()(const Tensor& x) const {
  const Tensor wide = x.element_size() < 4 ? x.cast(dtypes::float32) : x;
  const Tensor normed = (wide * (wide.square().mean(-1, true) + eps).rsqrt()).cast(x.dtype());
  return weight.defined() ? normed * weight : normed;
}

}  // namespace lathe::nn
