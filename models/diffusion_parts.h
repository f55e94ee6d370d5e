// What the U-net and the autoencoder of Stable Diffusion share.
#pragma once

#include <optional>

#include "lathe/nn.h"

namespace lathe::models {

// Two convolutions beside a shortcut; `time` features are added between them where there are any.
struct DiffusionResNet : nn::Module {
  struct Shape {
    std::int64_t in, out, groups;
    double eps;
    std::int64_t time = 0;
  };
  explicit DiffusionResNet(const Shape& shape);
  Tensor operator()(const Tensor& x, const Tensor* time = nullptr) const;
  void parts(nn::Parts& p) override;

  nn::GroupNorm norm1, norm2;
  nn::Conv2d conv1, conv2;
  std::optional<nn::Linear> time_projection;
  std::optional<nn::Conv2d> shortcut;
};

// A convolution that halves or doubles height and width.
struct Resample : nn::Module {
  enum class Kind : std::uint8_t {
    Half,       // with a frame around the image
    HalfAfter,  // with one row and one column behind it, as the autoencoder does
    Double,
  };
  Resample(std::int64_t channels, Kind kind);
  Tensor operator()(const Tensor& x) const;
  void parts(nn::Parts& p) override { p("conv", conv); }

  nn::Conv2d conv;
  Kind kind;
};

// Images as sequences of their pixels, and back: (batch, channels, h, w) and (batch, h * w, channels).
Tensor pixels_of(const Tensor& image);
Tensor image_of(const Tensor& pixels, const Tensor& like);

}  // namespace lathe::models
