// Convolutions and products between dequantisations are sums of integers: compared with those written out.
#include <gtest/gtest.h>

#include <cmath>

#include "lathe/onnx.h"
#include "onnx/support.h"
#include "onnx/writer.h"

namespace lathe::onnx {
namespace {

using namespace test;

constexpr std::int64_t kFloat = 1, kUint8 = 2, kInt8 = 3;

std::string bytes_from(const std::string& name, std::int64_t element) {
  return node("Cast", {name + "_wide"}, {name}, {attribute("to", element)});
}

Tensor bytes_of(const std::string& bytes) {
  return Tensor::from_bytes(bytes.data(), bytes.size(), {Size(bytes.size())}, dtypes::uint8);
}

struct Case {
  std::int64_t zero_x;
  std::vector<std::int64_t> zeros_w;  // one, or one per output
  std::int64_t element_w;
};

std::int64_t stored_weight(std::size_t i, std::int64_t element) {
  const auto n = static_cast<std::int64_t>(i * 37 % 251);
  return element == kInt8 ? n - 125 : n;
}

// Two outputs of 2 x 3 x 3 weights over images of 2 x 4 x 5, padded by 1.
class QuantisedConvolution : public ::testing::TestWithParam<Case> {};

TEST_P(QuantisedConvolution, IsTheSumOfItsIntegers) {
  const auto& [zero_x, zeros_w, element_w] = GetParam();
  constexpr std::int64_t kOut = 2, kIn = 2, kHeight = 4, kWidth = 5;
  Dims weights;
  for (std::size_t i = 0; i < kOut * kIn * 9; ++i) weights.push_back(stored_weight(i, element_w));
  const bool each = zeros_w.size() > 1;
  const std::vector<float> scales_w = each ? std::vector<float>{0.5F, 0.125F} : std::vector<float>{0.25F};
  const Dims scale_dims = each ? Dims{kOut} : Dims{};
  const std::string bytes = model(
      {.nodes = {bytes_from("w", element_w), bytes_from("zw", element_w), bytes_from("zx", kUint8),
                 node("DequantizeLinear", {"x", "sx", "zx"}, {"real_x"}),
                 node("DequantizeLinear", {"w", "sw", "zw"}, {"real_w"},
                      {attribute("axis", std::int64_t(0))}),
                 node("Conv", {"real_x", "real_w", "bias"}, {"y"}, {attribute("pads", Dims{1, 1, 1, 1})})},
       .initializers = {integers("w_wide", {kOut, kIn, 3, 3}, weights),
                        integers("zw_wide", scale_dims, zeros_w), integers("zx_wide", {}, {zero_x}),
                        floats("sx", {}, {0.03125F}), floats("sw", scale_dims, scales_w),
                        floats("bias", {kOut}, {1.5F, -2.0F})},
       .inputs = {value_info("x", kUint8, {"1", "2", "4", "5"})},
       .outputs = {value_info("y", kFloat, {"1", "2", "4", "5"})}});
  std::vector<float> image;
  for (std::size_t i = 0; i < kIn * kHeight * kWidth; ++i) image.push_back(static_cast<float>(i * 53 % 256));
  Runner runner(bytes_of(bytes));
  const Tensor x = Tensor(image).reshape({1, kIn, kHeight, kWidth}).cast(dtypes::uint8).contiguous();
  for (int call = 0; call < 3; ++call) {  // built, captured, replayed
    const std::vector<double> y = runner({{"x", x}}).at("y").tensor().tolist();
    std::size_t at = 0;
    for (std::int64_t o = 0; o < kOut; ++o)
      for (std::int64_t row = 0; row < kHeight; ++row)
        for (std::int64_t column = 0; column < kWidth; ++column, ++at) {
          std::int64_t sum = 0;
          for (std::int64_t c = 0; c < kIn; ++c)
            for (std::int64_t i = 0; i < 9; ++i) {
              const std::int64_t r = row + i / 3 - 1, k = column + i % 3 - 1;
              if (r < 0 || r >= kHeight || k < 0 || k >= kWidth) continue;
              const auto pixel = image[static_cast<std::size_t>((c * kHeight + r) * kWidth + k)];
              const std::int64_t weight = weights[static_cast<std::size_t>((o * kIn + c) * 9 + i)];
              sum += (static_cast<std::int64_t>(pixel) - zero_x) *
                     (weight - zeros_w[each ? static_cast<std::size_t>(o) : 0]);
            }
          const double scale =
              0.03125 * static_cast<double>(scales_w[each ? static_cast<std::size_t>(o) : 0]);
          EXPECT_EQ(y[at], static_cast<double>(sum) * scale + (o == 0 ? 1.5 : -2.0));  // powers of two: exact
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Zeros, QuantisedConvolution,
                         ::testing::Values(Case{0, {0}, kInt8}, Case{7, {0}, kInt8}, Case{255, {0, 0}, kInt8},
                                           Case{128, {-3, 5}, kInt8}, Case{9, {128}, kUint8},
                                           Case{0, {0, 200}, kUint8}));

TEST(QuantisedProduct, IsTheSumOfItsIntegers) {
  const std::string bytes =
      model({.nodes = {bytes_from("w", kInt8), bytes_from("zx", kUint8), bytes_from("zw", kInt8),
                       node("DequantizeLinear", {"x", "sx", "zx"}, {"real_x"}),
                       node("DequantizeLinear", {"w", "sw", "zw"}, {"real_w"},
                            {attribute("axis", std::int64_t(0))}),
                       node("Gemm", {"real_x", "real_w"}, {"y"}, {attribute("transB", std::int64_t(1))})},
             .initializers = {integers("w_wide", {2, 3}, {-128, 127, 5, 1, 0, -7}),
                              integers("zx_wide", {}, {10}), integers("zw_wide", {2}, {0, 1}),
                              floats("sx", {}, {0.5F}), floats("sw", {2}, {0.25F, 2.0F})},
             .inputs = {value_info("x", kUint8, {"1", "3"})},
             .outputs = {value_info("y", kFloat, {"1", "2"})}});
  Runner runner(bytes_of(bytes));
  const Tensor x = Tensor({255.0F, 0.0F, 12.0F}).reshape({1, 3}).cast(dtypes::uint8).contiguous();
  EXPECT_EQ(runner({{"x", x}}).at("y").tensor().tolist(),
            (std::vector<double>{(245 * -128 + -10 * 127 + 2 * 5) * 0.125, 0.0 + (-10 * -1 + 2 * -8)}));
}

// 33,100 products of 255 and 255 are more than an int32 holds.
TEST(QuantisedProduct, OfMoreStepsThanIntegersHoldIsASumOfFloats) {
  constexpr std::int64_t kSteps = 33100;
  const std::string bytes =
      model({.nodes = {bytes_from("w", kUint8), bytes_from("zero", kUint8),
                       node("DequantizeLinear", {"x", "s", "zero"}, {"real_x"}),
                       node("DequantizeLinear", {"w", "s", "zero"}, {"real_w"}),
                       node("MatMul", {"real_x", "real_w"}, {"y"})},
             .initializers = {integers("w_wide", {kSteps, 1}, Dims(kSteps, 255)),
                              integers("zero_wide", {}, {0}), floats("s", {}, {0.0625F})},
             .inputs = {value_info("x", kUint8, {"1", "33100"})},
             .outputs = {value_info("y", kFloat, {"1", "1"})}});
  Runner runner(bytes_of(bytes));
  const Tensor x = Tensor::full({1, kSteps}, 255).cast(dtypes::uint8).contiguous();
  constexpr double kSum = 255.0 * 255.0 * kSteps / 256.0;
  EXPECT_NEAR(runner({{"x", x}}).at("y").tensor().tolist()[0], kSum, 1e-4 * kSum);
}

// The scales of the sum and of its result become one, in every call the same.
TEST(QuantisedProduct, IsQuantisedAgainAfterARelu) {
  const std::string bytes = model(
      {.nodes = {bytes_from("w", kInt8), bytes_from("zx", kUint8), bytes_from("zy", kUint8),
                 bytes_from("zw", kInt8), node("DequantizeLinear", {"x", "sx", "zx"}, {"real_x"}),
                 node("DequantizeLinear", {"w", "sw", "zw"}, {"real_w"}),
                 node("Gemm", {"real_x", "real_w", "bias"}, {"sum"}, {attribute("transB", std::int64_t(1))}),
                 node("Relu", {"sum"}, {"positive"}),
                 node("QuantizeLinear", {"positive", "sy", "zy"}, {"y"})},
       .initializers = {integers("w_wide", {3, 2}, {1, 2, -100, 3, 127, 127}), integers("zx_wide", {}, {1}),
                        integers("zy_wide", {}, {20}), integers("zw_wide", {}, {0}), floats("sx", {}, {0.5F}),
                        floats("sw", {}, {0.25F}), floats("sy", {}, {0.5F}),
                        floats("bias", {3}, {1, 1, 0.25F})},
       .inputs = {value_info("x", kUint8, {"N", "2"})},
       .outputs = {value_info("y", kUint8, {"N", "3"})}});
  Runner runner(bytes_of(bytes));
  const Tensor x = Tensor({4.0F, 6.0F, 0.0F, 1.0F}).reshape({2, 2}).cast(dtypes::uint8).contiguous();
  for (int call = 0; call < 3; ++call)
    // Sums of 13, -285, 1016 and -1, 100, -127 eighths, to which the bias is added.
    EXPECT_EQ(runner({{"x", x}}).at("y").tensor().tolist(), (std::vector<double>{25, 20, 255, 22, 47, 20}));
}

TEST(Quantise, RoundsToEvenAndSaturates) {
  const std::string bytes =
      model({.nodes = {bytes_from("zero", kUint8), node("QuantizeLinear", {"x", "s", "zero"}, {"y"})},
             .initializers = {floats("s", {}, {2.0F}), integers("zero_wide", {}, {100})},
             .inputs = {value_info("x", kFloat, {"N"})},
             .outputs = {value_info("y", kUint8, {"N"})}});
  Runner runner(bytes_of(bytes));
  const Tensor x = Tensor({1.0F, 3.0F, 5.0F, -1.0F, -3.0F, 2.9F, 1e30F, -1e30F, INFINITY, -INFINITY, NAN});
  EXPECT_EQ(runner({{"x", x.to_float()}}).at("y").tensor().tolist(),
            (std::vector<double>{100, 102, 102, 100, 98, 101, 255, 0, 255, 0, 100}));
}

}  // namespace
}  // namespace lathe::onnx
