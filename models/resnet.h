// ResNet for images of 224x224 (He and others, 2015): stages of residual blocks, named as torchvision names
// them, so that its files load.
#pragma once

#include <optional>

#include "lathe/nn.h"

namespace lathe::models {

// The weighted path of one block and the shortcut beside it.
struct ResidualBlock : nn::Module {
  struct Shape {
    std::int64_t in, width, out, stride;
    bool bottleneck;  // 1x1, 3x3, 1x1 instead of 3x3, 3x3
  };
  explicit ResidualBlock(const Shape& shape);
  Tensor operator()(const Tensor& x);
  void parts(nn::Parts& p) override;

  std::vector<nn::Conv2d> convs;
  std::vector<nn::BatchNorm> norms;
  std::optional<nn::Conv2d> shortcut;  // where the shape changes
  std::optional<nn::BatchNorm> shortcut_norm;
};

struct ResNet : nn::Module {
  // depth: 18, 34 or 50; width: channels of the first stage; classes: 0 for a net of features alone.
  explicit ResNet(std::int64_t depth, std::int64_t classes = 1000, std::int64_t width = 64);
  Tensor operator()(const Tensor& x);             // (batch, 3, height, width) -> (batch, classes)
  std::vector<Tensor> features(const Tensor& x);  // what each stage makes of it
  std::vector<std::int64_t> channels() const;     // of these
  void parts(nn::Parts& p) override;

  nn::Conv2d conv1;
  nn::BatchNorm bn1;
  std::vector<std::vector<ResidualBlock>> stages;
  std::optional<nn::Linear> fc;
};

}  // namespace lathe::models
