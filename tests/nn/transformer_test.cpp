// The layers that follow PyTorch's, against numbers that PyTorch 1.13 gave in double precision for the same
// weights and inputs: parameter n of the state dict holds 0.4 sin(0.7 k + n), a norm's weight 1 more.
#include "lathe/nn/transformer.h"

#include "lathe/nn/sequential.h"
#include "nn/support.h"

namespace lathe::nn {
namespace {

void fill(Module& layer) {
  StateDict values = get_state_dict(layer);
  for (std::size_t n = 0; n < values.size(); ++n) {
    auto& [name, tensor] = values[n];
    const bool scale = name.starts_with("norm") && name.ends_with("weight");
    Values v(static_cast<std::size_t>(tensor.numel().value()));
    for (std::size_t k = 0; k < v.size(); ++k)
      v[k] = 0.4 * std::sin(0.7 * static_cast<double>(k) + static_cast<double>(n)) + (scale ? 1 : 0);
    tensor = tensor_of(v, tensor.shape());
  }
  load_state_dict(layer, values);
}

Tensor wave(const Shape& shape, double start) {
  std::size_t count = 1;
  for (const Size& s : shape) count *= static_cast<std::size_t>(s.value());
  Values v(count);
  for (std::size_t k = 0; k < count; ++k) v[k] = std::sin(0.3 * static_cast<double>(k) + start);
  return tensor_of(v, shape);
}

Tensor not_yet(std::int64_t n) { return Tensor::ones({n, n}, {.dtype = dtypes::bool_}).tril().logical_not(); }

TEST(Transformer, TheEncoderLayerIsPyTorchs) {
  TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 6});
  fill(layer);
  const Tensor x = wave({3, 2, 4}, 0.1);
  expect_near(layer(x), {-0.18162159, -1.0073305,  0.87711833,  -0.31579946, 0.8206286,   -0.27548383,
                         -0.34147637, -0.75797344, 0.82925413,  -0.20623054, -0.57301799, -0.55867584,
                         0.78536292,  -0.12802909, -0.64133083, -0.52794583, 0.50569332,  -1.0492196,
                         0.43972808,  -0.41327056, -0.60537061, -0.96621016, 0.97065381,  -0.047561874});
  const Tensor filling = Tensor({{false, false, true}, {false, false, false}});
  expect_near(layer(x, {.padding = &filling}),
              {-1.6448111,  -0.069426816, 0.66002694,  0.25358486,   0.8206286,    -0.27548383,
               -0.34147637, -0.75797344,  0.76695018,  -0.099329975, -0.63279871,  -0.55783868,
               0.78536292,  -0.12802909,  -0.64133083, -0.52794583,  -0.052951494, -1.0817967,
               0.80555731,  -0.25892506,  -0.60537061, -0.96621016,  0.97065381,   -0.047561874});
}

TEST(Transformer, TheEncoderLayerNormalizesFirstWhereAsked) {
  TransformerEncoderLayer layer(
      4, 2,
      {.dim_feedforward = 6,
       .activation = [](const Tensor& x) { return x * 0.5 * ((x * std::sqrt(0.5)).erf() + 1); },
       .batch_first = true,
       .norm_first = true});
  fill(layer);
  const Values wanted = {0.44226795, 0.79228556,  0.41884876,  0.381173,   1.580155,     1.1252239,
                         0.82332928, 0.47712178,  1.3133075,   0.39827191, -0.065597966, -0.5702892,
                         0.28213098, -0.79742419, -0.92588648, -1.3730295, -0.56131174,  -0.62808087,
                         -0.8369835, -0.8647542,  0.2009015,   0.52949328, 0.14940436,   0.21297327};
  const Tensor x = wave({2, 3, 4}, 0.1), mask = not_yet(3);
  expect_near(layer(x, {.attention = &mask}), wanted);
  expect_near(layer(x, {.causal = true}), wanted);
  const Tensor none = Tensor::zeros({2, 3}, {.dtype = dtypes::bool_});
  expect_near(layer(x, {.padding = &none, .causal = true}), wanted);
}

TEST(Transformer, TheDecoderLayerIsPyTorchs) {
  TransformerDecoderLayer layer(4, 2, {.dim_feedforward = 6});
  fill(layer);
  const Tensor mask = not_yet(3);
  expect_near(layer(wave({3, 2, 4}, 0.1), wave({5, 2, 4}, 0.9), {.attention = &mask}),
              {-1.8442113,  0.053124477, 0.39058248,  0.16086164,  -0.47959504, 0.65603302,
               -0.27050812, -0.82283122, 0.11265563,  0.34872881,  -0.20047408, -1.0581508,
               0.19528407,  0.28724896,  -0.18643889, -1.0757772,  -0.19354422, -0.87507524,
               0.75654247,  -0.62261036, -0.87192945, -0.90467454, 0.85620205,  -0.15274407});
}

TEST(Transformer, PartsHavePyTorchsNames) {
  TransformerDecoderLayer layer(4, 2, {.dim_feedforward = 6});
  EXPECT_EQ(names_of(get_state_dict(layer)),
            (std::vector<std::string>{
                "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
                "self_attn.out_proj.bias", "multihead_attn.in_proj_weight", "multihead_attn.in_proj_bias",
                "multihead_attn.out_proj.weight", "multihead_attn.out_proj.bias", "linear1.weight",
                "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight", "norm1.bias",
                "norm2.weight", "norm2.bias", "norm3.weight", "norm3.bias"}));
  EXPECT_NE(refusal([] { MultiheadAttention(5, 2); }).find("do not divide into 2 heads"), std::string::npos);
  EXPECT_NE(refusal([&] {
              layer.self_attn(Tensor::ones({2, 3}), Tensor::ones({2, 3}), Tensor::ones({2, 3}));
            }).find("three axes with 4 features are needed"),
            std::string::npos);
}

TEST(Sequential, RunsModulesAndFunctionsAndNamesThemByPosition) {
  Sequential net(Linear(2, 3), [](const Tensor& x) { return x.relu(); }, Linear(3, 1, false));
  EXPECT_EQ(names_of(get_state_dict(net)), (std::vector<std::string>{"0.weight", "0.bias", "2.weight"}));
  load_state_dict(net, {{"0.weight", Tensor({{1.0, 0.0}, {0.0, 1.0}, {-1.0, 0.0}})},
                        {"0.bias", Tensor({0.0, 1.0, 0.0})},
                        {"2.weight", Tensor({{1.0, 10.0, 100.0}})}});
  expect_near(net(Tensor({{2.0, 3.0}, {-4.0, 0.0}})), {42, 410});
  Sequential copy = net;
  copy.add([](const Tensor& x) { return x * 2; });
  EXPECT_EQ(net.size(), 3U);
  expect_near(copy(Tensor({{2.0, 3.0}})), {84});
}

}  // namespace
}  // namespace lathe::nn
