// The random stream: pinned words, independence of device and of how it is cut, and first moments.
#include <set>

#include "ir/node.h"
#include "tensor/values.h"

namespace lathe {
namespace {

using testing::expect_values;

TEST(Random, TheFirstWordIsThePublishedAnswer) {
  // Threefry 2x32 with 20 rounds of counter 0 under key 0 is 6b200159 99ba4efe.
  Tensor::manual_seed(0);
  EXPECT_EQ(Tensor::random_bits(1).item<std::uint32_t>(), 0x6b200159u);
  Tensor::manual_seed(0);
  EXPECT_EQ(Tensor::rand({1}).item(), (0x6b200159u >> 8) / 16777216.0);
}

TEST(Random, ADrawCutInTwoIsTheSameStream) {
  Tensor::manual_seed(5);
  std::vector<double> whole = Tensor::rand({10}).tolist();
  Tensor::manual_seed(5);
  Tensor first = Tensor::rand({4}), second = Tensor::rand({6});
  std::vector<double> parts = second.tolist(), front = first.tolist();
  parts.insert(parts.begin(), front.begin(), front.end());
  EXPECT_EQ(whole, parts);
}

TEST(Random, EveryDeviceHasTheSameStream) {
  Tensor::manual_seed(9);
  std::vector<double> here = Tensor::randn({8}, {.device = "CPU"}).tolist();
  EXPECT_EQ(here, Tensor::randn({8}, {.device = "CPU:1"}).tolist());
}

TEST(Random, SeedsGiveDifferentStreams) {
  Tensor::manual_seed(1);
  std::vector<double> a = Tensor::rand({4}).tolist();
  Tensor::manual_seed(2);
  EXPECT_NE(a, Tensor::rand({4}).tolist());
}

TEST(Random, ADrawnTensorKeepsItsValue) {
  Tensor x = Tensor::rand({5});
  Tensor doubled = x * 2;
  std::vector<double> later = Tensor::rand({5}).tolist(), values = x.tolist(), twice = doubled.tolist();
  EXPECT_NE(later, values);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(twice[i], 2 * values[i]);
}

TEST(Random, MomentsAreRight) {
  Tensor::manual_seed(3);
  Tensor u = Tensor::rand({20000}), n = Tensor::randn({20000});
  EXPECT_NEAR(u.mean().item(), 0.5, 0.01);
  EXPECT_NEAR(u.var().item(), 1.0 / 12, 0.005);
  EXPECT_NEAR(n.mean().item(), 0, 0.03);
  EXPECT_NEAR(n.std().item(), 1, 0.03);
  EXPECT_GE(u.min().item(), 0);
  EXPECT_LT(u.max().item(), 1);
  Tensor i = Tensor::randint({5000}, -2, 3);
  EXPECT_EQ(i.min().item(), -2);
  EXPECT_EQ(i.max().item(), 2);
  EXPECT_NEAR(i.cast(dtypes::float32).mean().item(), 0, 0.1);
}

TEST(Random, APermutationHoldsEveryNumberOnce) {
  std::vector<double> p = Tensor::randperm(13).tolist();
  EXPECT_EQ(std::set<double>(p.begin(), p.end()).size(), 13u);
}

TEST(Random, MultinomialFollowsTheWeights) {
  Tensor::manual_seed(4);
  std::vector<double> counts(3, 0);
  for (double v : Tensor({1.0, 0.0, 3.0}).multinomial(2000, true).tolist())
    counts[static_cast<std::size_t>(v)] += 1;
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[2] / 2000, 0.75, 0.05);
  std::vector<double> all = Tensor({1.0, 2.0, 3.0}).multinomial(3).tolist();
  EXPECT_EQ(std::set<double>(all.begin(), all.end()).size(), 3u);
}

TEST(Random, DropoutScalesWhatItKeeps) {
  Tensor x = Tensor::ones({4000});
  expect_values(x.shrink({{0, 2}}).dropout(0.5), {1, 1});
  TrainingScope training;
  std::vector<double> y = x.dropout(0.25).tolist();
  double kept = 0;
  for (double v : y) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0 / 3) < 1e-6);
    kept += v != 0;
  }
  EXPECT_NEAR(kept / 4000, 0.75, 0.05);
}

// Every draw writes the count, which is read by the next and never realized itself.
TEST(Random, DrawsLeaveNothingBehind) {
  auto draw = [] {
    const Scope scope;
    Tensor::rand({4}).realize();
  };
  for (int i = 0; i < 20; ++i) draw();
  const std::uint64_t nodes = interner_stats().live;
  for (int i = 0; i < 100; ++i) draw();
  EXPECT_LE(interner_stats().live, nodes);
}

TEST(Random, TheStreamIsTheSameHoweverDrawsAreRealized) {
  auto numbers = [](int pattern) {
    Tensor::manual_seed(5);
    std::vector<Tensor> draws;
    std::vector<double> out;
    for (int i = 0; i < 12; ++i) {
      draws.push_back(Tensor::rand({3}));
      if (pattern == 1 || (pattern == 2 && i % 3 == 2) || (pattern == 3 && i % 4 == 0))
        draws.back().realize();
    }
    for (const Tensor& t : draws)
      for (double v : t.tolist()) out.push_back(v);
    return out;
  };
  const std::vector<double> lazy = numbers(0);
  for (int pattern = 1; pattern < 4; ++pattern) EXPECT_EQ(numbers(pattern), lazy) << pattern;
}

TEST(Random, GradientsReadNumbersThatWereDrawnBeforeOthersWereRealized) {
  for (int round = 0; round < 4; ++round) {
    Tensor w = Tensor::rand({4}).contiguous().requires_grad_();
    const Tensor x = Tensor::randn({4});
    w.realize();
    (w * x).sum().backward();
    w.grad()->realize();
    EXPECT_EQ(w.grad()->tolist(), x.tolist()) << "round " << round;
  }
}

}  // namespace
}  // namespace lathe
