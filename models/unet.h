// The U-net of Stable Diffusion 1: what of an image in the autoencoder's features is noise, by the time and
// by a text. Named as in the files of the library diffusers.
#pragma once

#include "models/diffusion_parts.h"

namespace lathe::models {

// The default is that of Stable Diffusion 1. The innermost level has no transformers.
struct UNetConfig {
  std::int64_t channels = 4;
  std::vector<std::int64_t> widths = {320, 640, 1280, 1280};
  std::int64_t layers = 2, heads = 8, context = 768, groups = 32;
};

// Attention to itself or to a text, whose vectors have `context` features.
struct CrossAttention : nn::Module {
  CrossAttention(std::int64_t dim, std::int64_t heads, std::int64_t context);
  Tensor operator()(const Tensor& x, const Tensor& seen) const;
  void parts(nn::Parts& p) override;

  nn::Linear query, key, value, out;
  std::int64_t heads;
};

// A transformer block over the pixels of an image.
struct ImageTransformer : nn::Module {
  ImageTransformer(std::int64_t dim, std::int64_t heads, std::int64_t context, std::int64_t groups);
  Tensor operator()(const Tensor& x, const Tensor& text) const;
  void parts(nn::Parts& p) override;

  nn::GroupNorm norm;
  nn::Conv2d in, out;
  nn::LayerNorm norm1, norm2, norm3;
  CrossAttention own, other;
  nn::Linear gated, down;
};

// ResNets, each with a transformer behind it where there are any, then a change of size.
struct UNetLevel : nn::Module {
  void parts(nn::Parts& p) override;
  Tensor through(std::size_t layer, const Tensor& x, const Tensor& time, const Tensor& text) const;

  std::vector<DiffusionResNet> resnets;
  std::vector<ImageTransformer> attentions;
  std::optional<Resample> sampler;
};

struct UNet : nn::Module {
  explicit UNet(const UNetConfig& config = {});
  // x: (batch, channels, height, width), times: (batch), text: (batch, tokens, context); the noise in x.
  Tensor operator()(const Tensor& x, const Tensor& times, const Tensor& text) const;
  // How badly the noise is told that x was mixed with; share: (batch), of x in the mixture's variance.
  Tensor loss(const Tensor& x, const Tensor& noise, const Tensor& share, const Tensor& times,
              const Tensor& text) const;
  void parts(nn::Parts& p) override;

  UNetConfig config;
  nn::Conv2d in, out;
  nn::Linear time1, time2;
  std::vector<UNetLevel> downs, ups;
  UNetLevel middle;
  nn::GroupNorm out_norm;
};

}  // namespace lathe::models
