#include "models/demo_net.h"

#include <fmt/format.h>

namespace lathe::models {
namespace {

// Two convolutions of 5, a halving, two of 3, a halving.
std::int64_t side_left(std::int64_t side) { return ((side - 8) / 2 - 4) / 2; }

std::int64_t features_left(std::int64_t height, std::int64_t width) {
  constexpr std::int64_t kSmallest = 14;
  if (height < kSmallest || width < kSmallest)
    throw UserError("DemoNet", fmt::format("images of {}x{} are too small", height, width))
        .help(fmt::format("at least {0}x{0} is needed", kSmallest));
  return 64 * side_left(height) * side_left(width);
}

}  // namespace

DemoNet::DemoNet(std::int64_t classes, std::int64_t height, std::int64_t width)
    : conv1(1, 32, 5),
      conv2(32, 32, 5),
      norm1(32),
      conv3(32, 64, 3),
      conv4(64, 64, 3),
      norm2(64),
      linear(features_left(height, width), classes) {}

Tensor DemoNet::operator()(const Tensor& images) {
  Tensor x = images.cast(dtypes::float32) * (1.0 / 255);
  x = norm1(conv2(conv1(x).relu()).relu()).max_pool2d();
  x = norm2(conv4(conv3(x).relu()).relu()).max_pool2d();
  return linear(x.flatten(1));
}

void DemoNet::parts(nn::Parts& p) {
  p("conv1", conv1)("conv2", conv2)("norm1", norm1)("conv3", conv3)("conv4", conv4)("norm2", norm2)("linear",
                                                                                                    linear);
}

}  // namespace lathe::models
