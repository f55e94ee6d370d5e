// The nets at tiny sizes: shapes, names, gradients, and that what should not change an answer does not.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lathe/optim.h"
#include "models/bert.h"
#include "models/demo_net.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "models/resnet.h"

namespace lathe::models {
namespace {

std::set<std::string> names_of(nn::Module& net) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : nn::get_state_dict(net)) names.insert(name);
  return names;
}

std::int64_t trainable(nn::Module& net) {
  std::int64_t count = 0;
  for (const Tensor& t : nn::get_parameters(net))
    if (t.requires_grad()) count += t.numel().value();
  return count;
}

void expect_all_gradients_are_finite(nn::Module& net) {
  for (const auto& [name, tensor] : nn::get_state_dict(net)) {
    if (!tensor.requires_grad()) continue;
    ASSERT_TRUE(tensor.grad().has_value()) << name;
    for (double g : tensor.grad()->tolist()) ASSERT_TRUE(std::isfinite(g)) << name;
  }
}

Tensor tokens(const std::vector<std::int32_t>& values, const Shape& shape) { return Tensor(values, shape); }

TEST(Models, PublishedSizesHaveThePublishedNumberOfParameters) {
  nn::UninitializedScope uninitialized;
  ResNet r18(18), r34(34), r50(50);
  EXPECT_EQ(trainable(r18), 11689512);
  EXPECT_EQ(trainable(r34), 21797672);
  EXPECT_EQ(trainable(r50), 25557032);
  GPT2 gpt2;
  EXPECT_EQ(trainable(gpt2), 124439808);
  Bert bert;
  EXPECT_EQ(trainable(bert), 110106428);
  Llama llama;
  EXPECT_EQ(trainable(llama), 1235814400);
}

TEST(Models, TensorsHaveTheNamesOfThePublishedFiles) {
  nn::UninitializedScope uninitialized;
  ResNet resnet(50);
  EXPECT_EQ(names_of(resnet).size(), 320U);
  for (const char* name : {"conv1.weight", "bn1.running_var", "layer1.0.downsample.1.num_batches_tracked",
                           "layer3.5.conv3.weight", "fc.bias"})
    EXPECT_TRUE(names_of(resnet).contains(name)) << name;
  GPT2 gpt2({.layers = 2});
  for (const char* name :
       {"wte.weight", "wpe.weight", "h.1.attn.c_attn.bias", "h.0.mlp.c_proj.weight", "ln_f.bias"})
    EXPECT_TRUE(names_of(gpt2).contains(name)) << name;
  Llama llama({.layers = 1, .tied = false});
  for (const char* name : {"model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight",
                           "model.layers.0.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"})
    EXPECT_TRUE(names_of(llama).contains(name)) << name;
}

TEST(Models, ResNetRunsForwardAndBackward) {
  Tensor::manual_seed(1);
  ResNet net(18, 5);
  TrainingScope training;
  const Tensor scores = net(Tensor::rand({2, 3, 32, 32}));
  EXPECT_EQ(to_string(scores.shape()), "(2, 5)");
  scores.sparse_categorical_crossentropy(tokens({1, 4}, {2})).backward();
  expect_all_gradients_are_finite(net);
}

TEST(Models, DemoNetLeaves576FeaturesOfA28x28Image) {
  DemoNet net;
  EXPECT_EQ(to_string(net.linear.weight.shape()), "(10, 576)");
  EXPECT_EQ(to_string(net(Tensor::zeros({2, 1, 28, 28}, {.dtype = dtypes::uint8})).shape()), "(2, 10)");
  EXPECT_THROW(DemoNet(10, 12, 12), UserError);
}

TEST(Models, Gpt2LearnsASequenceByHeart) {
  Tensor::manual_seed(2);
  GPT2 net({.vocabulary = 11, .context = 8, .layers = 2, .heads = 2, .dim = 8});
  nn::optim::AdamW optimizer(nn::get_parameters(net), 0.05);
  const Tensor in = tokens({1, 5, 2, 7, 3, 9}, {1, 6}), next = tokens({5, 2, 7, 3, 9, 4}, {1, 6});
  TrainingScope training;
  double first = 0, last = 0;
  for (int step = 0; step < 25; ++step) {
    optimizer.zero_grad();
    const Tensor loss = net.loss(in, next);
    loss.backward();
    if (step == 0) expect_all_gradients_are_finite(net);
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  EXPECT_NEAR(first, std::log(11.0), 1.0);
  EXPECT_LT(last, first / 2);
}

TEST(Models, Gpt2DoesNotLookAhead) {
  GPT2 net({.vocabulary = 11, .context = 8, .layers = 1, .heads = 2, .dim = 8});
  const std::vector<double> a = net(tokens({1, 5, 2, 7}, {1, 4})).tolist(),
                            b = net(tokens({1, 5, 9, 3}, {1, 4})).tolist();
  for (std::size_t i = 0; i < 2 * 11; ++i) EXPECT_EQ(a[i], b[i]);
  EXPECT_NE(a[2 * 11], b[2 * 11]);
  EXPECT_THROW(net(tokens({1}, {1})), UserError);
}

TEST(Models, BertTrainsBothHeadsAndIgnoresMaskedPositions) {
  Tensor::manual_seed(3);
  Bert net(
      {.vocabulary = 13, .context = 6, .layers = 2, .heads = 2, .dim = 8, .feed_forward = 16, .dropout = 0});
  const Tensor segments = tokens({0, 0, 1, 1, 0, 0, 1, 1}, {2, 4});
  const Tensor text = tokens({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  net.loss(text, segments, tokens({-100, 9, -100, -100, 3, -100, -100, 1}, {2, 4}), tokens({0, 1}, {2}))
      .backward();
  expect_all_gradients_are_finite(net);

  const Tensor mask = Tensor({{true, true, true, false}, {true, true, true, true}});
  const std::vector<double> a = net.encode(text, segments, &mask).tolist();
  const std::vector<double> b =
      net.encode(tokens({1, 2, 3, 11, 5, 6, 7, 8}, {2, 4}), segments, &mask).tolist();
  for (std::size_t i = 0; i < 3 * 8; ++i) EXPECT_EQ(a[i], b[i]) << "a hidden word changed what others see";
}

constexpr LlamaConfig kTiny{.vocabulary = 17,
                            .dim = 16,
                            .feed_forward = 24,
                            .layers = 2,
                            .heads = 4,
                            .kv_heads = 2,
                            .context = 12,
                            .rope_theta = 100};

TEST(Models, LlamaGivesTheSameLogitsTokenByTokenAndAllAtOnce) {
  Tensor::manual_seed(4);
  Llama net(kTiny);
  NoGradScope no_grad;
  const std::vector<std::int32_t> text = {3, 14, 1, 5, 9};
  const std::vector<double> at_once = net(tokens(text, {1, 5}), 0).tolist();
  const Variable position("position", 0, kTiny.context - 1);
  std::vector<double> stepwise;
  for (std::size_t i = 0; i < text.size(); ++i)
    stepwise = net(tokens({text[i]}, {1, 1}), position.bind(static_cast<std::int64_t>(i))).tolist();
  ASSERT_EQ(at_once.size(), 17U);
  for (std::size_t i = 0; i < at_once.size(); ++i) EXPECT_NEAR(stepwise[i], at_once[i], 1e-4);
}

TEST(Models, RopeTurnsPairsOfFeaturesByTheirAngle) {
  Rope rope(kTiny);
  const std::vector<double> x = rope(Tensor({{{{1.0, 2.0, 3.0, 4.0}}}}), 5).tolist();
  const double theta[] = {5.0, 5.0 / 10};  // 100^(-2/4) = 1/10
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double a = 1.0 + static_cast<double>(pair), b = a + 2, c = std::cos(theta[pair]),
                 s = std::sin(theta[pair]);
    EXPECT_NEAR(x[pair], a * c - b * s, 1e-5);
    EXPECT_NEAR(x[pair + 2], b * c + a * s, 1e-5);
  }
}

TEST(Models, WrongSizesAreRefused) {
  EXPECT_THROW(ResNet(51), UserError);
  EXPECT_THROW(Llama({.dim = 16, .heads = 3, .kv_heads = 3}), UserError);
}

}  // namespace
}  // namespace lathe::models
