#include "lathe/nn/normalization.h"

#include "nn/support.h"

namespace lathe::nn {
namespace {

struct Statistics {
  double mean, var;  // biased
};

Statistics statistics(const Values& v) {
  double mean = 0, var = 0;
  for (double x : v) mean += x / static_cast<double>(v.size());
  for (double x : v) var += (x - mean) * (x - mean) / static_cast<double>(v.size());
  return {mean, var};
}

// (2, 4, 3, 3) images; the values at some of their positions.
constexpr std::size_t kBatch = 2, kChannels = 4, kSpace = 9;
Values images() { return random_values(kBatch * kChannels * kSpace, 5, -2, 3); }
Tensor as_images(const Values& v) { return tensor_of(v, {2, 4, 3, 3}); }

// Normalizes the elements that `group` gives one number; then scales and shifts by channel.
template <class Group>
Values normalized(const Values& x, const Values& weight, const Values& bias, Group group) {
  std::vector<Values> members(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) members[group(i)].push_back(x[i]);
  Values out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Statistics s = statistics(members[group(i)]);
    const std::size_t channel = i / kSpace % kChannels;
    out.push_back((x[i] - s.mean) / std::sqrt(s.var + 1e-5) * weight[channel] + bias[channel]);
  }
  return out;
}

std::size_t channel_of(std::size_t i) { return i / kSpace % kChannels; }

TEST(Normalization, BatchNormUsesTheBatchInTrainingAndTracksIt) {
  BatchNorm2d layer(4);
  const Values w = random_values(4, 6), b = random_values(4, 7), x = images();
  layer.weight.assign(tensor_of(w, {4}));
  layer.bias.assign(tensor_of(b, {4}));
  {
    TrainingScope training;
    expect_near(layer(as_images(x)), normalized(x, w, b, channel_of));
  }
  for (std::size_t c = 0; c < kChannels; ++c) {
    Values members;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (channel_of(i) == c) members.push_back(x[i]);
    const Statistics s = statistics(members);
    const double count = kBatch * kSpace;
    EXPECT_NEAR(layer.running_mean.tolist()[c], 0.1 * s.mean, 1e-5);
    EXPECT_NEAR(layer.running_var.tolist()[c], 0.9 + 0.1 * s.var * count / (count - 1), 1e-5);
  }
  EXPECT_EQ(layer.num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(Normalization, BatchNormUsesTheRunningStatisticsOutsideTraining) {
  BatchNorm layer(4);
  const Values mean = random_values(4, 8), var = random_values(4, 9, 0.5, 2), x = images();
  layer.running_mean.assign(tensor_of(mean, {4}));
  layer.running_var.assign(tensor_of(var, {4}));
  Values wanted;
  for (std::size_t i = 0; i < x.size(); ++i)
    wanted.push_back((x[i] - mean[channel_of(i)]) / std::sqrt(var[channel_of(i)] + 1e-5));
  expect_near(layer(as_images(x)), wanted);
  EXPECT_EQ(layer.num_batches_tracked.item<std::int64_t>(), 0);
}

TEST(Normalization, BatchNormTakesAnyRank) {
  TrainingScope training;
  BatchNorm1d flat(3);
  BatchNorm3d solid(3, {.affine = false, .track_running_stats = false});
  EXPECT_EQ(to_string(flat(Tensor::zeros({5, 3})).shape()), "(5, 3)");
  EXPECT_EQ(to_string(solid(Tensor::zeros({2, 3, 4, 5, 6})).shape()), "(2, 3, 4, 5, 6)");
  EXPECT_EQ(refusal([&] { flat(Tensor::zeros({5, 4})); }),
            "lathe: BatchNorm: the input has shape (5, 4), axis 1 should have 3 channels");
}

TEST(Normalization, GroupNormAndInstanceNormAverageWithinASample) {
  const Values w = random_values(4, 10), b = random_values(4, 11), x = images();
  for (std::size_t groups : {1U, 2U, 4U}) {
    GroupNorm layer(static_cast<std::int64_t>(groups), 4);
    layer.weight.assign(tensor_of(w, {4}));
    layer.bias.assign(tensor_of(b, {4}));
    auto group = [&](std::size_t i) { return i / (kSpace * kChannels / groups); };
    expect_near(layer(as_images(x)), normalized(x, w, b, group));
  }
  InstanceNorm layer(4);
  expect_near(layer(as_images(x)),
              normalized(x, Values(4, 1), Values(4, 0), [](std::size_t i) { return i / kSpace; }));
  EXPECT_EQ(refusal([] { GroupNorm(3, 4); }), "lathe: GroupNorm: 4 channels do not divide into 3 groups");
}

TEST(Normalization, LayerNormAveragesTheLastAxes) {
  LayerNorm layer({2, 3}, 1e-5);
  const Values w = random_values(6, 12), b = random_values(6, 13), x = random_values(24, 14);
  layer.weight.assign(tensor_of(w, {2, 3}));
  layer.bias.assign(tensor_of(b, {2, 3}));
  Values wanted;
  for (std::size_t row = 0; row < 4; ++row) {
    const Statistics s = statistics({x.begin() + static_cast<std::ptrdiff_t>(row * 6),
                                     x.begin() + static_cast<std::ptrdiff_t>(row * 6 + 6)});
    for (std::size_t i = 0; i < 6; ++i)
      wanted.push_back((x[row * 6 + i] - s.mean) / std::sqrt(s.var + 1e-5) * w[i] + b[i]);
  }
  expect_near(layer(tensor_of(x, {4, 2, 3})), wanted);
  EXPECT_EQ(refusal([&] { layer(Tensor::zeros({3, 2})); }),
            "lathe: LayerNorm: the input has shape (3, 2), its last sizes should be (2, 3)");
}

TEST(Normalization, LayerNorm2dAveragesTheChannelsOfAPixel) {
  LayerNorm2d layer(4);
  const Values x = images();
  auto pixel = [](std::size_t i) { return i / (kSpace * kChannels) * kSpace + i % kSpace; };
  expect_near(layer(as_images(x)), normalized(x, Values(4, 1), Values(4, 0), pixel));
}

TEST(Normalization, RmsNormDividesByTheRootMeanSquare) {
  RMSNorm layer(3);
  const Values w = random_values(3, 15), x = random_values(6, 16);
  layer.weight.assign(tensor_of(w, {3}));
  Values wanted;
  for (std::size_t row = 0; row < 2; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 3; ++i) squares += x[row * 3 + i] * x[row * 3 + i];
    for (std::size_t i = 0; i < 3; ++i)
      wanted.push_back(x[row * 3 + i] / std::sqrt(squares / 3 + 1e-6) * w[i]);
  }
  expect_near(layer(tensor_of(x, {2, 3})), wanted);
}

}  // namespace
}  // namespace lathe::nn
