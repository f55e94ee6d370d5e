// The autoencoder of Stable Diffusion: images to a few features of an eighth of their size, and back. Named
// as in the files of the library diffusers.
#pragma once

#include "models/diffusion_parts.h"

namespace lathe::models {

// The default is that of Stable Diffusion 1.
struct VaeConfig {
  std::int64_t channels = 3, features = 4;
  std::vector<std::int64_t> widths = {128, 256, 512, 512};
  std::int64_t layers = 2, groups = 32;
};

struct VaeAttention : nn::Module {
  VaeAttention(std::int64_t dim, std::int64_t groups);
  Tensor operator()(const Tensor& x) const;
  void parts(nn::Parts& p) override;

  nn::GroupNorm norm;
  nn::Linear query, key, value, out;
};

// Half of the autoencoder: `widths` from the outside for the encoder, from the inside for the decoder.
struct VaeCoder : nn::Module {
  struct Shape {
    std::int64_t in, out;
    std::vector<std::int64_t> widths;
    std::int64_t layers, groups;
    bool encodes;
  };
  explicit VaeCoder(const Shape& shape);
  Tensor operator()(const Tensor& x) const;
  void parts(nn::Parts& p) override;

  struct Level : nn::Module {
    void parts(nn::Parts& p) override;
    std::vector<DiffusionResNet> resnets;
    std::optional<Resample> sampler;
  };
  bool encodes;
  nn::Conv2d in, last;
  std::vector<Level> levels;
  std::vector<DiffusionResNet> middle;
  VaeAttention attention;
  nn::GroupNorm norm;
};

struct Vae : nn::Module {
  explicit Vae(const VaeConfig& config = {});
  struct Encoded {
    Tensor mean, log_variance;
  };
  Encoded encode(const Tensor& images) const;
  Tensor decode(const Tensor& features) const;
  // What comes back is not the image, and how far the features are from a normal distribution, times
  // `weight`.
  Tensor loss(const Tensor& images, const Tensor& noise, double weight = 1e-6) const;
  void parts(nn::Parts& p) override;

  VaeCoder encoder, decoder;
  nn::Conv2d after_encoder, before_decoder;
};

}  // namespace lathe::models
