// The small convolutional net of `lathe demo`: images of one channel into ten classes or so.
#pragma once

#include "lathe/nn.h"

namespace lathe::models {

struct DemoNet : nn::Module {
  // 28x28 images leave 576 features for the last layer.
  explicit DemoNet(std::int64_t classes = 10, std::int64_t height = 28, std::int64_t width = 28);
  // uint8 or float images (batch, 1, height, width), 0 to 255 -> (batch, classes)
  Tensor operator()(const Tensor& images);
  void parts(nn::Parts& p) override;

  nn::Conv2d conv1, conv2;
  nn::BatchNorm norm1;
  nn::Conv2d conv3, conv4;
  nn::BatchNorm norm2;
  nn::Linear linear;
};

}  // namespace lathe::models
