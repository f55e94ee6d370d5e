// Every net with the same small weights in PyTorch: loss, gradients, and the loss behind one step of
// training. against_torch.py runs the definitions of python/lathe/models there, which name all tensors as
// ours.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "lathe/optim.h"
#include "lathe/state.h"
#include "models/bert.h"
#include "models/clip.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "models/resnet.h"
#include "models/retinanet.h"
#include "models/unet.h"
#include "models/vae.h"
#include "test_folders.h"

namespace lathe::models {
namespace {

namespace fs = std::filesystem;

using Inputs = std::vector<Tensor>;

struct Case {
  std::string name, arguments;  // of the class in Python
  std::string type;
  std::shared_ptr<nn::Module> net;
  std::function<Tensor(const Inputs&)> loss;
  Inputs inputs;
  DataType dtype = dtypes::float32;
};

Tensor whole(std::int64_t below, const Shape& shape) {
  return Tensor::randint(shape, 0, below).cast(dtypes::int32).realize();
}
Tensor normal(const Shape& shape) { return Tensor::randn(shape).realize(); }

template <class Net>
Case made(std::string name, std::string type, std::string arguments, std::shared_ptr<Net> net, Inputs inputs,
          Tensor (*loss)(Net&, const Inputs&)) {
  return {std::move(name),
          std::move(arguments),
          std::move(type),
          net,
          [net, loss](const Inputs& in) { return loss(*net, in); },
          std::move(inputs)};
}

std::vector<Case> cases() {
  Tensor::manual_seed(7);
  std::vector<Case> all;
  const auto images = [](std::int64_t side) { return normal({2, 3, side, side}); };
  for (const std::int64_t depth : {18, 50}) {
    all.push_back(made<ResNet>(
        "resnet" + std::to_string(depth), "ResNet",
        R"({"classes": 5, "width": 4, "depth": )" + std::to_string(depth) + "}",
        std::make_shared<ResNet>(depth, 5, 4), {images(64), whole(5, {2})},
        [](ResNet& net, const Inputs& in) { return net(in[0]).sparse_categorical_crossentropy(in[1]); }));
    if (depth == 50) all.back().dtype = dtypes::float64;  // so many norms over so few numbers are steep
  }
  all.push_back(
      made<GPT2>("gpt2", "GPT2", R"({"vocabulary": 29, "context": 12, "layers": 2, "heads": 2, "dim": 16})",
                 std::make_shared<GPT2>(GPT2Config{29, 12, 2, 2, 16}), {whole(29, {2, 9}), whole(29, {2, 9})},
                 [](GPT2& net, const Inputs& in) { return net.loss(in[0], in[1]); }));
  all.push_back(made<Bert>(
      "bert", "Bert",
      R"({"vocabulary": 31, "context": 12, "layers": 2, "heads": 2, "dim": 16, "feed_forward": 24, "dropout": 0})",
      std::make_shared<Bert>(BertConfig{31, 12, 2, 2, 2, 16, 24, 1e-12, 0}),
      {whole(31, {2, 9}), whole(2, {2, 9}), (whole(3, {2, 9}) == 0).where(whole(31, {2, 9}), -100).realize(),
       whole(2, {2})},
      [](Bert& net, const Inputs& in) { return net.loss(in[0], in[1], in[2], in[3]); }));
  all.push_back(made<Llama>(
      "llama", "Llama",
      R"({"vocabulary": 29, "dim": 16, "feed_forward": 24, "layers": 2, "heads": 4, "kv_heads": 2, "rope_theta": 100.0})",
      std::make_shared<Llama>(LlamaConfig{29, 16, 24, 2, 4, 2, 12, 100, 1e-5, true}),
      {whole(29, {2, 9}), whole(29, {2, 9})},
      [](Llama& net, const Inputs& in) { return net.loss(in[0], in[1]); }));
  const Tensor boxes({2.0F, 3, 30, 40, 10, 10, 50, 60, 0, 0, 20, 20, 0, 0, 0, 0}, {});
  all.push_back(made<RetinaNet>(
      "retinanet", "RetinaNet", R"({"classes": 4, "depth": 18, "width": 4, "dim": 8, "smallest": 8})",
      std::make_shared<RetinaNet>(RetinaNetConfig{4, 18, 4, 8, 8}),
      {images(64), boxes.to_float().reshape({2, 2, 4}).realize(),
       Tensor({1, 3, 0, -1}).reshape({2, 2}).realize()},
      [](RetinaNet& net, const Inputs& in) { return net.loss(in[0], in[1], in[2]); }));
  all.push_back(made<ClipText>(
      "clip", "ClipText", R"({"vocabulary": 29, "context": 12, "layers": 2, "heads": 2, "dim": 16})",
      std::make_shared<ClipText>(ClipTextConfig{29, 12, 2, 2, 16}), {whole(29, {2, 9})},
      [](ClipText& net, const Inputs& in) { return net(in[0]).square().mean(); }));
  all.push_back(made<UNet>(
      "unet", "UNet", R"({"widths": [8, 16], "layers": 1, "heads": 2, "context": 12, "groups": 4})",
      std::make_shared<UNet>(UNetConfig{4, {8, 16}, 1, 2, 12, 4}),
      {normal({2, 4, 8, 8}), normal({2, 4, 8, 8}), Tensor({0.9F, 0.3F}).to_float().realize(),
       whole(1000, {2}), normal({2, 5, 12})},
      [](UNet& net, const Inputs& in) { return net.loss(in[0], in[1], in[2], in[3], in[4]); }));
  all.push_back(made<Vae>("vae", "Vae", R"({"widths": [8, 16], "layers": 1, "groups": 4})",
                          std::make_shared<Vae>(VaeConfig{3, 4, {8, 16}, 1, 4}),
                          {images(16), normal({2, 4, 8, 8})},
                          [](Vae& net, const Inputs& in) { return net.loss(in[0], in[1]); }));
  return all;
}

void expect_near(const Tensor& got, const Tensor& wanted, double relative, const std::string& what) {
  const std::vector<double> a = got.tolist(), b = wanted.tolist();
  ASSERT_EQ(a.size(), b.size()) << what;
  double most = 1e-3;
  for (const double x : b) most = std::max(most, std::fabs(x));
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], relative * (std::fabs(b[i]) + 0.1 * most)) << what << ", element " << i;
}

TEST(AgainstTorch, NetsLearnAStepAsThere) {
  const std::string python = "/usr/bin/python3";
  if (std::system((python + " -c 'import torch' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "the distribution's Python has no torch";
  const fs::path folder = fs::path(testing::TempDir()) / "lathe_against_torch";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::vector<Case> all = cases();
  for (Case& one : all) {
    one.net->to(one.dtype);
    for (Tensor& x : one.inputs)
      if (x.dtype() == dtypes::float32) x = x.cast(one.dtype).realize();
    nn::StateDict dict = one.net->state_dict();
    for (std::size_t i = 0; i < one.inputs.size(); ++i)
      dict.emplace_back("input." + std::to_string(i), one.inputs[i]);
    state::safe_save(dict, folder / (one.name + ".safetensors"),
                     {{"class", one.type}, {"arguments", one.arguments}});
  }
  const std::string program = std::string(LATHE_SOURCE_DIR) + "/tests/models/against_torch.py";
  ASSERT_EQ(std::system((python + " '" + program + "' '" + folder.string() + "'").c_str()), 0);
  for (Case& one : all) {
    SCOPED_TRACE(one.name);
    const nn::StateDict expected = state::safe_load(folder / (one.name + ".expected"));
    TrainingScope training;
    nn::optim::SGD optimizer(one.net->parameters(), 0.01);
    const Tensor first = one.loss(one.inputs);
    first.backward();
    for (const auto& [name, parameter] : one.net->named_parameters()) {
      const Tensor slope = parameter.grad() ? *parameter.grad() : Tensor::zeros(parameter.shape());
      expect_near(slope, *nn::find(expected, "gradient." + name), 5e-3, "gradient of " + name);
    }
    optimizer.step();
    for (const auto& [name, parameter] : one.net->named_parameters())
      expect_near(parameter, *nn::find(expected, "weight." + name), 1e-4, name);
    const std::vector<double> losses = nn::find(expected, "losses")->tolist();
    EXPECT_NEAR(first.item(), losses[0], 1e-4 * std::fabs(losses[0]));
    EXPECT_NEAR(one.loss(one.inputs).item(), losses[1], 1e-3 * std::fabs(losses[1]));
  }
  fs::remove_all(folder);
}

TEST(AgainstTorch, TheOtherNetsHaveThePublishedNumbersOfParameters) {
  nn::UninitializedScope uninitialized;
  const auto count = [](nn::Module& net) {
    std::int64_t sum = 0;
    for (const Tensor& t : net.parameters()) sum += t.numel().value();
    return sum;
  };
  RetinaNet retinanet;
  EXPECT_EQ(count(retinanet), 34014999 + 53120);  // torchvision's own count leaves frozen norms out
  ClipText clip;
  EXPECT_EQ(count(clip), 123060480);
  UNet unet;
  EXPECT_EQ(count(unet), 859520964);
  Vae vae;
  EXPECT_EQ(count(vae), 83653863);
}

TEST(Boxes, OneThatAWorseOneOverlapsStays) {
  const Tensor boxes =
      Tensor({0.0F, 0, 10, 10, 1, 0, 11, 10, 20, 0, 30, 10, 0, 0, 10, 10}).to_float().reshape({4, 4});
  const Tensor labels = Tensor({0, 0, 0, 1}), valid = Tensor({true, true, true, true});
  EXPECT_EQ(best_of_overlapping(boxes, labels, valid, 0.5).tolist(), (std::vector<double>{1, 0, 1, 1}));
}

TEST(Boxes, ALongChainIsFollowedToItsEnd) {
  std::vector<float> numbers;
  for (int i = 0; i < 41; ++i)
    for (const int x : {i, 0, i + 2, 1}) numbers.push_back(static_cast<float>(x));
  const std::vector<double> kept =
      best_of_overlapping(Tensor(numbers, {41, 4}), Tensor::zeros({41}), Tensor::full({41}, 1).to_bool(), 0.3)
          .tolist();
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i], i % 2 == 0 ? 1 : 0) << i;
}

}  // namespace
}  // namespace lathe::models
