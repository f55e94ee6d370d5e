#include "lathe/nn/layers.h"

#include "nn/support.h"

namespace lathe::nn {
namespace {

TEST(Layers, LinearIsXTimesTheTransposedWeightPlusBias) {
  Linear layer(3, 2);
  const Values x = random_values(12, 1), w = layer.weight.tolist(), b = layer.bias.tolist();
  Values wanted;
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t o = 0; o < 2; ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < 3; ++i) sum += x[row * 3 + i] * w[o * 3 + i];
      wanted.push_back(sum);
    }
  expect_near(layer(tensor_of(x, {2, 2, 3})), wanted);
}

TEST(Layers, InitialValuesStayWithinTheBoundAndUseIt) {
  Tensor::manual_seed(3);
  Linear layer(64, 256);
  double greatest = 0, sum = 0;
  for (double v : layer.weight.tolist()) {
    greatest = std::max(greatest, std::abs(v));
    sum += v;
  }
  EXPECT_LE(greatest, 1.0 / 8);
  EXPECT_GT(greatest, 0.9 / 8);
  EXPECT_LT(std::abs(sum / (64 * 256)), 0.01);
}

struct Conv {
  std::int64_t batch, in, height, width, out, kh, kw, groups, stride, dilation, padding;
};

// The definition, in loops.
Values convolve(const Conv& c, const Values& x, const Values& w, const Values& b) {
  const std::int64_t oh = (c.height + 2 * c.padding - c.dilation * (c.kh - 1) - 1) / c.stride + 1,
                     ow = (c.width + 2 * c.padding - c.dilation * (c.kw - 1) - 1) / c.stride + 1,
                     in_group = c.in / c.groups, out_group = c.out / c.groups;
  Values y;
  for (std::int64_t n = 0; n < c.batch; ++n)
    for (std::int64_t o = 0; o < c.out; ++o)
      for (std::int64_t i = 0; i < oh; ++i)
        for (std::int64_t j = 0; j < ow; ++j) {
          double sum = b[static_cast<std::size_t>(o)];
          for (std::int64_t ci = 0; ci < in_group; ++ci)
            for (std::int64_t ki = 0; ki < c.kh; ++ki)
              for (std::int64_t kj = 0; kj < c.kw; ++kj) {
                const std::int64_t yy = i * c.stride + ki * c.dilation - c.padding,
                                   xx = j * c.stride + kj * c.dilation - c.padding,
                                   channel = o / out_group * in_group + ci;
                if (yy < 0 || xx < 0 || yy >= c.height || xx >= c.width) continue;
                sum += x[static_cast<std::size_t>(((n * c.in + channel) * c.height + yy) * c.width + xx)] *
                       w[static_cast<std::size_t>(((o * in_group + ci) * c.kh + ki) * c.kw + kj)];
              }
          y.push_back(sum);
        }
  return y;
}

TEST(Layers, Conv2dIsTheDefinitionForStridesGroupsDilationAndPadding) {
  for (const Conv& c : {Conv{2, 3, 6, 5, 4, 3, 2, 1, 1, 1, 0}, Conv{1, 4, 7, 7, 6, 3, 3, 2, 2, 1, 1},
                        Conv{1, 2, 9, 8, 2, 3, 3, 1, 1, 2, 2}, Conv{2, 4, 5, 5, 4, 3, 3, 4, 1, 1, 1}}) {
    Conv2d layer(c.in, c.out, {c.kh, c.kw},
                 {.groups = c.groups, .stride = c.stride, .dilation = c.dilation, .padding = c.padding});
    const Values x = random_values(static_cast<std::size_t>(c.batch * c.in * c.height * c.width), 2);
    SCOPED_TRACE("groups " + std::to_string(c.groups) + ", stride " + std::to_string(c.stride));
    expect_near(layer(tensor_of(x, {c.batch, c.in, c.height, c.width})),
                convolve(c, x, layer.weight.tolist(), layer.bias.tolist()));
  }
}

TEST(Layers, GradientsOfConv2dAreThoseOfTheDefinition) {
  constexpr std::size_t kIn = 3, kOut = 4, kSide = 9, kKernel = 5, kLeft = kSide - kKernel + 1;
  Conv2d layer(kIn, kOut, kKernel);
  const Values x = random_values(kIn * kSide * kSide, 30), g = random_values(kOut * kLeft * kLeft, 31),
               w = layer.weight.tolist();
  Tensor input = parameter_of(x, {1, kIn, kSide, kSide});
  (layer(input) * tensor_of(g, {1, kOut, kLeft, kLeft})).sum().backward();
  Values dx(x.size()), dw(w.size());
  for (std::size_t o = 0; o < kOut; ++o)
    for (std::size_t i = 0; i < kIn; ++i)
      for (std::size_t y = 0; y < kLeft * kLeft; ++y)
        for (std::size_t k = 0; k < kKernel * kKernel; ++k) {
          const std::size_t at = (i * kSide + y / kLeft + k / kKernel) * kSide + y % kLeft + k % kKernel,
                            weight = (o * kIn + i) * kKernel * kKernel + k;
          dx[at] += g[o * kLeft * kLeft + y] * w[weight];
          dw[weight] += g[o * kLeft * kLeft + y] * x[at];
        }
  expect_near(*input.grad(), dx);
  expect_near(*layer.weight.grad(), dw);
}

TEST(Layers, Conv1dIsAConv2dOfHeightOne) {
  Conv1d layer(3, 4, 3, {.stride = 2});
  const Values x = random_values(2 * 3 * 9, 3);
  const Conv c{2, 3, 1, 9, 4, 1, 3, 1, 2, 1, 0};
  Values wanted;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t o = 0; o < 4; ++o)
      for (std::size_t j = 0; j < 4; ++j) {
        double sum = layer.bias.tolist()[o];
        for (std::size_t i = 0; i < 3; ++i)
          for (std::size_t k = 0; k < 3; ++k)
            sum += x[(n * 3 + i) * 9 + 2 * j + k] * layer.weight.tolist()[(o * 3 + i) * 3 + k];
        wanted.push_back(sum);
      }
  expect_near(layer(tensor_of(x, {c.batch, c.in, c.width})), wanted);
}

TEST(Layers, ConvTranspose2dScattersEveryInputThroughTheKernel) {
  constexpr std::size_t kIn = 2, kOut = 3, kSide = 4, kKernel = 3, kStride = 2, kPad = 1, kLeft = 7;
  ConvTranspose2d layer(kIn, kOut, kKernel, {.stride = kStride, .padding = kPad});
  const Values x = random_values(kIn * kSide * kSide, 4), w = layer.weight.tolist(), b = layer.bias.tolist();
  Values wanted(kOut * kLeft * kLeft);
  for (std::size_t o = 0; o < kOut; ++o)
    for (std::size_t at = 0; at < kLeft * kLeft; ++at) wanted[o * kLeft * kLeft + at] = b[o];
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t y = 0; y < kSide; ++y)
      for (std::size_t z = 0; z < kSide; ++z)
        for (std::size_t o = 0; o < kOut; ++o)
          for (std::size_t ky = 0; ky < kKernel; ++ky)
            for (std::size_t kx = 0; kx < kKernel; ++kx) {
              const std::size_t row = y * kStride + ky - kPad,
                                column = z * kStride + kx - kPad;  // wraps when negative
              if (row >= kLeft || column >= kLeft) continue;
              wanted[(o * kLeft + row) * kLeft + column] +=
                  x[(i * kSide + y) * kSide + z] * w[((i * kOut + o) * kKernel + ky) * kKernel + kx];
            }
  const Tensor y = layer(tensor_of(x, {1, kIn, kSide, kSide}));
  EXPECT_EQ(to_string(y.shape()), "(1, 3, 7, 7)");
  expect_near(y, wanted);
}

TEST(Layers, ConvTranspose1dHasTheLengthOfItsFormula) {
  ConvTranspose1d layer(2, 3, 4, {.stride = 3, .padding = 1});
  EXPECT_EQ(to_string(layer(Tensor::zeros({5, 2, 6})).shape()), "(5, 3, 17)");
}

TEST(Layers, EmbeddingTakesRows) {
  Embedding layer(5, 3);
  const Values w = layer.weight.tolist();
  const Tensor y = layer(Tensor({{4, 0}, {2, 4}}));
  EXPECT_EQ(to_string(y.shape()), "(2, 2, 3)");
  Values wanted;
  for (std::size_t row : {4U, 0U, 2U, 4U})
    for (std::size_t d = 0; d < 3; ++d) wanted.push_back(w[row * 3 + d]);
  expect_near(y, wanted, 0);
}

TEST(Layers, DropoutOnlyActsInTraining) {
  Dropout layer(0.5);
  const Tensor x = Tensor::ones({1000});
  expect_near(layer(x), Values(1000, 1.0));
  TrainingScope training;
  std::size_t zeros = 0;
  for (double v : layer(x).tolist()) {
    EXPECT_TRUE(v == 0 || v == 2) << v;
    zeros += v == 0;
  }
  EXPECT_GT(zeros, 400U);
  EXPECT_LT(zeros, 600U);
}

TEST(Layers, RefuseSizesThatDoNotFit) {
  EXPECT_EQ(refusal([] { Linear(0, 3); }), "lathe: Linear: in_features is 0, which is not positive");
  EXPECT_EQ(refusal([] { Conv2d(3, 4, 3, {.groups = 2}); }),
            "lathe: Conv: 4 and 3 channels do not divide into 2 groups");
  EXPECT_EQ(refusal([] { Conv2d(3, 4, {1, 2, 3}); }),
            "lathe: Conv2d: the kernel has 3 sizes\n  help: give one size, or two");
  EXPECT_EQ(refusal([] { Dropout(1.5); }), "lathe: Dropout: p is 1.5, which is not within 0 and 1");
}

}  // namespace
}  // namespace lathe::nn
