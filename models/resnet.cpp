#include "models/resnet.h"

#include <fmt/format.h>

#include <array>

namespace lathe::models {
namespace {

struct Depth {
  std::int64_t depth;
  bool bottleneck;
  std::array<std::int64_t, 4> blocks;  // a stage
};
constexpr Depth kDepths[] = {
    {18, false, {2, 2, 2, 2}},
    {34, false, {3, 4, 6, 3}},
    {50, true, {3, 4, 6, 3}},
};
constexpr std::int64_t kExpansion = 4;  // of a bottleneck's output over its width

const Depth& depth_row(std::int64_t depth) {
  for (const Depth& row : kDepths)
    if (row.depth == depth) return row;
  throw UserError("ResNet", fmt::format("there is no depth {}", depth)).help("choose 18, 34 or 50");
}

// Each stage is twice as wide as the one before.
std::vector<std::vector<ResidualBlock>> make_stages(const Depth& row, std::int64_t first) {
  std::vector<std::vector<ResidualBlock>> stages;
  std::int64_t in = first;
  for (std::size_t s = 0; s < row.blocks.size(); ++s) {
    const std::int64_t width = first << s, out = width * (row.bottleneck ? kExpansion : 1);
    std::vector<ResidualBlock> blocks;
    for (std::int64_t b = 0; b < row.blocks[s]; ++b, in = out)
      blocks.emplace_back(ResidualBlock::Shape{in, width, out, b == 0 && s > 0 ? 2 : 1, row.bottleneck});
    stages.push_back(std::move(blocks));
  }
  return stages;
}

// Convolutions need no bias: the batch norm behind them has one.
nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return {in, out, kernel, {.stride = stride, .padding = kernel / 2}, false};
}

}  // namespace

ResidualBlock::ResidualBlock(const Shape& shape) {
  if (shape.bottleneck) {
    convs.push_back(conv(shape.in, shape.width, 1, 1));
    convs.push_back(conv(shape.width, shape.width, 3, shape.stride));
    convs.push_back(conv(shape.width, shape.out, 1, 1));
  } else {
    convs.push_back(conv(shape.in, shape.width, 3, shape.stride));
    convs.push_back(conv(shape.width, shape.out, 3, 1));
  }
  for (const nn::Conv2d& c : convs) norms.emplace_back(c.weight.size(0).value());
  if (shape.stride != 1 || shape.in != shape.out) {
    shortcut = conv(shape.in, shape.out, 1, shape.stride);
    shortcut_norm.emplace(shape.out);
  }
}

Tensor ResidualBlock::operator()(const Tensor& x) {
  Tensor out = x;
  for (std::size_t i = 0; i < convs.size(); ++i) {
    out = norms[i](convs[i](out));
    if (i + 1 < convs.size()) out = out.relu();
  }
  return (out + (shortcut ? (*shortcut_norm)((*shortcut)(x)) : x)).relu();
}

void ResidualBlock::parts(nn::Parts& p) {
  for (std::size_t i = 0; i < convs.size(); ++i)
    p(fmt::format("conv{}", i + 1), convs[i])(fmt::format("bn{}", i + 1), norms[i]);
  if (shortcut) p("downsample.0", *shortcut)("downsample.1", *shortcut_norm);
}

ResNet::ResNet(std::int64_t depth, std::int64_t classes, std::int64_t width)
    : conv1(conv(3, width, 7, 2)), bn1(width), stages(make_stages(depth_row(depth), width)) {
  if (classes > 0) fc.emplace(channels().back(), classes);
}

std::vector<std::int64_t> ResNet::channels() const {
  std::vector<std::int64_t> all;
  for (const std::vector<ResidualBlock>& stage : stages)
    all.push_back(stage.back().convs.back().weight.size(0).value());
  return all;
}

std::vector<Tensor> ResNet::features(const Tensor& x) {
  Tensor out = bn1(conv1(x)).relu().max_pool2d({3, 3}, {.stride = 2, .padding = 1});
  std::vector<Tensor> all;
  for (std::vector<ResidualBlock>& stage : stages) {
    for (ResidualBlock& block : stage) out = block(out);
    all.push_back(out);
  }
  return all;
}

Tensor ResNet::operator()(const Tensor& x) {
  if (!fc) throw UserError("ResNet", "a net without classes only computes features");
  return (*fc)(features(x).back().mean({2, 3}));
}

void ResNet::parts(nn::Parts& p) {
  p("conv1", conv1)("bn1", bn1);
  for (std::size_t i = 0; i < stages.size(); ++i) p(fmt::format("layer{}", i + 1), stages[i]);
  if (fc) p("fc", *fc);
}

}  // namespace lathe::models
