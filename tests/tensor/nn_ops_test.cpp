// Layers as functions, against loops written down directly.
#include "tensor/values.h"

namespace lathe {
namespace {

using testing::expect_shape;
using testing::expect_values;

struct Image {
  std::int64_t batch, channels, height, width;
  std::vector<double> data;
  double at(std::int64_t b, std::int64_t c, std::int64_t y, std::int64_t x) const {
    if (y < 0 || x < 0 || y >= height || x >= width) return 0;
    return data[static_cast<std::size_t>(((b * channels + c) * height + y) * width + x)];
  }
};

Image image(std::int64_t b, std::int64_t c, std::int64_t h, std::int64_t w) {
  Image p{b, c, h, w, {}};
  for (std::int64_t i = 0; i < b * c * h * w; ++i) p.data.push_back(static_cast<double>((i * 7) % 11) - 5);
  return p;
}

Tensor tensor(const Image& p) { return Tensor(p.data, {p.batch, p.channels, p.height, p.width}); }

TEST(NnOps, ConvolutionMatchesTheSum) {
  for (std::int64_t groups : {1, 2})
    for (std::int64_t stride : {1, 2})
      for (std::int64_t padding : {0, 1})
        for (std::int64_t dilation : {1, 2}) {
          Image x = image(2, 4, 6, 7), w = image(6, 4 / groups, 3, 2);
          std::int64_t oh = (6 + 2 * padding - dilation * 2 - 1) / stride + 1,
                       ow = (7 + 2 * padding - dilation - 1) / stride + 1;
          std::vector<double> expected;
          for (std::int64_t b = 0; b < 2; ++b)
            for (std::int64_t o = 0; o < 6; ++o)
              for (std::int64_t y = 0; y < oh; ++y)
                for (std::int64_t c = 0; c < ow; ++c) {
                  double sum = 0;
                  for (std::int64_t i = 0; i < 4 / groups; ++i)
                    for (std::int64_t ky = 0; ky < 3; ++ky)
                      for (std::int64_t kx = 0; kx < 2; ++kx)
                        sum += w.at(o, i, ky, kx) * x.at(b, o / (6 / groups) * (4 / groups) + i,
                                                         y * stride + ky * dilation - padding,
                                                         c * stride + kx * dilation - padding);
                  expected.push_back(sum);
                }
          SCOPED_TRACE(::testing::Message() << groups << stride << padding << dilation);
          Tensor out = tensor(x).conv2d(tensor(w), nullptr, {groups, stride, dilation, padding});
          expect_shape(out, {2, 6, oh, ow});
          expect_values(out, expected, 1e-6);
        }
}

TEST(NnOps, ATransposedConvolutionIsTheGradientOfOne) {
  Image x = image(1, 2, 5, 5), w = image(2, 3, 3, 3);
  Tensor weight = tensor(w), input = tensor(x);
  for (std::int64_t stride : {1, 2}) {
    Tensor out = input.conv_transpose2d(weight, nullptr, {.stride = stride, .padding = 1});
    Tensor probe = out.zeros_like().contiguous().realize();
    Tensor forward = probe.conv2d(weight, nullptr, {.stride = stride, .padding = 1});
    expect_shape(forward, input.shape());
    expect_values(out, (forward * input).sum().gradient({probe})[0].tolist(), 1e-5);
  }
}

TEST(NnOps, AnyNumberOfSpatialAxes) {
  expect_shape(Tensor::zeros({2, 3, 10}).conv2d(Tensor::zeros({4, 3, 3})), {2, 4, 8});
  expect_shape(Tensor::zeros({2, 3, 5, 5, 5}).conv2d(Tensor::zeros({4, 3, 3, 3, 3}), nullptr, {.padding = 1}),
               {2, 4, 5, 5, 5});
}

TEST(NnOps, PoolsMatchTheirDefinition) {
  Tensor x = Tensor::arange(16).reshape({1, 1, 4, 4}).cast(dtypes::float32);
  expect_values(x.max_pool2d(), {5, 7, 13, 15});
  expect_values(x.avg_pool2d(), {2.5, 4.5, 10.5, 12.5});
  expect_values(x.max_pool2d({3, 3}, {.stride = 2, .padding = 1}), {5, 7, 13, 15});
  expect_values(x.avg_pool2d({3, 3}, {.stride = 2, .padding = 1, .count_include_pad = false}),
                {2.5, 4, 8.5, 10});
  expect_values(x.max_pool2d({3, 3}, {.stride = 2, .ceil_mode = true}), {10, 11, 14, 15});
  auto [values, indices] = x.max_pool2d_with_indices();
  expect_values(indices, {5, 7, 13, 15});
  expect_values(values.max_unpool2d(indices), {0, 0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0, 13, 0, 15});
}

TEST(NnOps, AttentionMatchesItsParts) {
  Tensor q = Tensor::arange(12).reshape({1, 1, 3, 4}).cast(dtypes::float32) * 0.1, k = q * 0.5 + 0.2,
         v = q - 0.3;
  Tensor scores = q.dot(k.transpose(-1, -2)) * 0.5;
  Tensor causal = Tensor::ones({3, 3}).tril() > 0;
  expect_values(q.scaled_dot_product_attention(k, v), scores.softmax().dot(v).tolist(), 1e-6);
  std::vector<double> masked = causal.where(scores, -INFINITY).softmax().dot(v).tolist();
  expect_values(q.scaled_dot_product_attention(k, v, {.causal = true}), masked, 1e-6);
  expect_values(q.scaled_dot_product_attention(k, v, {.mask = &causal}), masked, 1e-6);
  Tensor wide = Tensor::cat({q, q}, 1);
  expect_shape(wide.scaled_dot_product_attention(k, v, {.gqa = true}), {1, 2, 3, 4});
}

TEST(NnOps, LossesMatchTheirFormulas) {
  Tensor logits({{2.0, 1.0, 0.1}, {0.5, 2.5, 0.3}}), labels({0, 1});
  auto row = [](double a, double b, double c) {
    return -std::log(std::exp(a) / (std::exp(a) + std::exp(b) + std::exp(c)));
  };
  const double first = row(2.0, 1.0, 0.1), second = row(2.5, 0.5, 0.3);
  expect_values(logits.cross_entropy(labels), {(first + second) / 2}, 1e-6);
  expect_values(logits.sparse_categorical_crossentropy(labels), {(first + second) / 2}, 1e-6);
  expect_values(logits.cross_entropy(labels, {.reduction = Reduction::None}), {first, second}, 1e-6);
  expect_values(logits.cross_entropy(Tensor({0, -100})), {first}, 1e-6);
  expect_values(logits.log_softmax().nll_loss(labels), {(first + second) / 2}, 1e-6);
  expect_values(logits.cross_entropy(labels.one_hot(3).cast(dtypes::float32)), {(first + second) / 2}, 1e-6);
  Tensor p({0.3, 0.9}), y({0.0, 1.0});
  expect_values(p.binary_crossentropy(y), {-(std::log(0.7) + std::log(0.9)) / 2}, 1e-6);
  Tensor z = (p / (1.0 - p)).log();
  expect_values(z.binary_crossentropy_logits(y), {-(std::log(0.7) + std::log(0.9)) / 2}, 1e-6);
}

TEST(NnOps, NormalisationsCentreAndScale) {
  Tensor x({{1.0, 2.0, 3.0, 6.0}});
  Tensor y = x.layernorm(-1, 0);
  EXPECT_NEAR(y.mean().item(), 0, 1e-6);
  EXPECT_NEAR(y.var({}, false, 0).item(), 1, 1e-5);
  Tensor images = tensor(image(2, 3, 2, 2)), weight({1.0, 2.0, 3.0}), bias({0.5, 0.0, -0.5});
  Tensor mean = images.mean({0, 2, 3}), invstd = (images.var({0, 2, 3}, false, 0) + 1e-5).rsqrt();
  Tensor out = images.batchnorm(&weight, &bias, mean, invstd);
  expect_values(out.mean({0, 2, 3}), {0.5, 0, -0.5}, 1e-5);
}

TEST(NnOps, EinsumMatchesProducts) {
  Tensor a = Tensor::arange(6).reshape({2, 3}), b = Tensor::arange(12).reshape({3, 4});
  expect_values(Tensor::einsum("ij,jk->ik", {a, b}), a.dot(b).tolist());
  expect_values(Tensor::einsum("ij,jk", {a, b}), a.dot(b).tolist());
  expect_values(Tensor::einsum("ij->j", {a}), {3, 5, 7});
  expect_values(Tensor::einsum("ii->i", {Tensor::arange(9).reshape({3, 3})}), {0, 4, 8});
  expect_values(Tensor::einsum("i,j->ij", {Tensor({1, 2}), Tensor({3, 4})}), {3, 4, 6, 8});
  expect_shape(Tensor::einsum("...ij,...jk->...ik", {Tensor::zeros({5, 2, 3}), Tensor::zeros({5, 3, 4})}),
               {5, 2, 4});
}

TEST(NnOps, MatmulShapesFollowNumpy) {
  expect_shape(Tensor::zeros({3}).dot(Tensor::zeros({3})), {});
  expect_shape(Tensor::zeros({2, 3}).dot(Tensor::zeros({3})), {2});
  expect_shape(Tensor::zeros({3}).dot(Tensor::zeros({3, 4})), {4});
  expect_shape(Tensor::zeros({5, 2, 3}).dot(Tensor::zeros({3, 4})), {5, 2, 4});
  expect_shape(Tensor::zeros({7, 1, 2, 3}).dot(Tensor::zeros({5, 3, 4})), {7, 5, 2, 4});
}

TEST(NnOps, InterpolateResizes) {
  Tensor x({{{1.0, 2.0, 3.0, 4.0}}});
  expect_values(x.interpolate({8}), {1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4}, 1e-6);
  expect_values(x.interpolate({7}, "linear", true), {1, 1.5, 2, 2.5, 3, 3.5, 4}, 1e-6);
  expect_values(x.interpolate({2}, "nearest"), {1, 3});
}

TEST(NnOps, QrAndSvdGiveBackTheMatrix) {
  std::vector<double> values;
  for (int i = 0; i < 12; ++i) values.push_back(std::sin(i * 2.3));
  for (const Shape& shape : {Shape{4, 3}, Shape{3, 4}}) {
    Tensor m(values, shape);
    auto [q, r] = m.qr();
    expect_values(q.dot(r), values, 1e-5);
    expect_values(q.T().dot(q), Tensor::eye(shape[0].value()).tolist(), 1e-5);
    auto [u, s, v] = m.svd(false);
    expect_values((u * s.unsqueeze(0)).dot(v), values, 1e-4);
    expect_values(u.T().dot(u), Tensor::eye(3).tolist(), 1e-4);
  }
}

// Near 0 by a relative measure, elsewhere to the last bits of 1.
TEST(NnOps, TheErrorFunctionIsExactToTwoRoundings) {
  std::vector<float> x;
  for (int i = -4500; i <= 4500; ++i) x.push_back(static_cast<float>(i) * 0.001F);
  for (float small : {1e-38F, -1e-30F, 1e-10F, -1e-4F}) x.push_back(small);
  const std::vector<double> got = Tensor(x).erf().tolist();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = std::erf(static_cast<double>(x[i]));
    EXPECT_NEAR(got[i], expected, std::min(1.7e-7, 3e-7 * std::abs(expected))) << x[i];
  }
  const float infinity = INFINITY;
  expect_values(Tensor(std::vector<float>{infinity, -infinity, NAN, 1e30F, -20, 0}).erf(),
                {1, -1, NAN, 1, -1, 0});
}

TEST(NnOps, Sha3MatchesThePublishedDigests) {
  auto hex = [](const Tensor& t) {
    std::string out;
    for (std::uint8_t b : t.data<std::uint8_t>()) {
      constexpr const char* kDigits = "0123456789abcdef";
      out += {kDigits[b >> 4], kDigits[b & 15]};
    }
    return out;
  };
  Tensor abc(std::vector<std::uint8_t>{'a', 'b', 'c'});
  EXPECT_EQ(hex(abc.keccak()), "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532");
  EXPECT_EQ(hex(abc.keccak("sha3_224")), "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf");
  EXPECT_EQ(hex(abc.keccak("shake_128")), "5881092dd818bf5cf8a3ddb793fbcba7");
}

// What stands outside an image, or before a running value, is the least number of the dtype: some have no
// infinity.
TEST(NnOps, MaximaOfFloatsWithoutInfinityHaveABorder) {
  for (DataType d : {dtypes::fp8e4m3, dtypes::fp8e4m3fnuz, dtypes::fp8e5m2fnuz, dtypes::float16}) {
    Tensor x = Tensor({-3.0, -2.0, -4.0}).cast(d).contiguous();
    expect_values(x.reshape({1, 1, 1, 3}).max_pool2d({1, 3}, {.stride = 1, .padding = {0, 1}}), {-2, -2, -2});
    expect_values(x.cummax(0).first, {-3, -2, -2});
    expect_values(x.cummin(0).first, {-3, -3, -4});
    expect_values(x.logcumsumexp(0).cast(dtypes::float32).round(), {-3, -2, -2});
  }
}

}  // namespace
}  // namespace lathe
