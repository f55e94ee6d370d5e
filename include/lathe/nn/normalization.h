// Normalization layers: they bring values to mean 0 and variance 1 (RMSNorm: to root mean square 1) and then
// scale and shift them by learned amounts. They differ in the axes they average over.
#pragma once

#include <optional>

#include "lathe/nn/module.h"

namespace lathe::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  // The weight of a new batch in the running statistics; without one they are the mean of all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;
};

// Normalizes each channel (axis 1) over batch and space, for tensors of any rank. In training (TrainingScope)
// it uses the batch's statistics and updates the running ones; otherwise it uses the running ones.
struct BatchNorm : Module {
  explicit BatchNorm(std::int64_t channels, const BatchNormOptions& options = {});
  Tensor operator()(const Tensor& x);
  void parts(Parts& p) override;

  Tensor weight, bias;                                    // (channels), or not defined
  Tensor running_mean, running_var, num_batches_tracked;  // or not defined
  BatchNormOptions options;

 private:
  // Mean and biased variance of each channel.
  std::pair<Tensor, Tensor> batch_statistics(const Tensor& x) const;
  void track(const Tensor& mean, const Tensor& var, double count);
};
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;
using BatchNorm3d = BatchNorm;

// Normalizes each group of channels over channels and space, per sample.
struct GroupNorm : Module {
  GroupNorm(std::int64_t groups, std::int64_t channels, double eps = 1e-5, bool affine = true);
  Tensor operator()(const Tensor& x) const;
  void parts(Parts& p) override { p("weight", weight)("bias", bias); }

  Tensor weight, bias;  // (channels), or not defined
  std::int64_t groups;
  double eps;
};

// Normalizes each channel over space, per sample: a GroupNorm with one group per channel.
struct InstanceNorm : GroupNorm {
  explicit InstanceNorm(std::int64_t channels, double eps = 1e-5, bool affine = true)
      : GroupNorm(channels, channels, eps, affine) {}
};

// Normalizes over the last axes.
struct LayerNorm : Module {
  explicit LayerNorm(const Ints& normalized_shape, double eps = 1e-5, bool elementwise_affine = true);
  Tensor operator()(const Tensor& x) const;
  void parts(Parts& p) override { p("weight", weight)("bias", bias); }

  Tensor weight, bias;  // of normalized_shape, or not defined
  Ints normalized_shape;
  double eps;
};

// Normalizes images (batch, channels, height, width) over the channels.
struct LayerNorm2d : LayerNorm {
  explicit LayerNorm2d(std::int64_t channels, double eps = 1e-5, bool elementwise_affine = true)
      : LayerNorm(channels, eps, elementwise_affine) {}
  Tensor operator()(const Tensor& x) const;
};

// x / sqrt(mean(x^2) + eps) * weight, with the mean over the last axis, in float32 for narrower dtypes.
struct RMSNorm : Module {
  explicit RMSNorm(std::int64_t dim, double eps = 1e-6, bool elementwise_affine = true);
  Tensor operator()(const Tensor& x) const;
  void parts(Parts& p) override { p("weight", weight); }

  Tensor weight;  // (dim), or not defined
  double eps;
};

}  // namespace lathe::nn
