#include "lathe/schedulers.h"

#include <numbers>

#include "nn/support.h"

namespace lathe::nn::schedulers {
namespace {

struct Fixture : testing::Test {
  Tensor p = parameter(Tensor::ones({1}));
  optim::SGD optimizer{{p}, 0.5};
};
using Schedulers = Fixture;

TEST_F(Schedulers, MultiStepMultipliesAtEachMilestone) {
  MultiStep s(optimizer, {2, 5}, 0.1);
  for (auto [step, rate] : {std::pair{0, 0.5}, {1, 0.5}, {2, 0.05}, {4, 0.05}, {5, 0.005}, {90, 0.005}})
    EXPECT_NEAR(s.at(step), rate, 1e-12) << step;
}

TEST_F(Schedulers, CosineAnnealingWarmsUpAndComesDown) {
  CosineAnnealing s(optimizer, 110, 0.1, 10);
  EXPECT_EQ(s.at(0), 0);
  EXPECT_NEAR(s.at(5), 0.25, 1e-12);
  EXPECT_NEAR(s.at(10), 0.5, 1e-12);
  EXPECT_NEAR(s.at(60), 0.3, 1e-12);
  EXPECT_NEAR(s.at(35), 0.1 + 0.4 * (1 + std::cos(std::numbers::pi / 4)) / 2, 1e-12);
  EXPECT_NEAR(s.at(110), 0.1, 1e-12);
  EXPECT_NEAR(s.at(500), 0.1, 1e-12);
}

TEST_F(Schedulers, OneCycleGoesUpToTheMaximumAndDownToTheEnd) {
  for (bool cosine : {true, false}) {
    OneCycle s(optimizer, 1.0, 101,
               {.rising = 0.5, .div_factor = 10, .final_div_factor = 100, .cosine = cosine});
    EXPECT_NEAR(s.at(0), 0.1, 1e-12);
    EXPECT_NEAR(s.at(25), 0.55, 1e-12);
    EXPECT_NEAR(s.at(50), 1.0, 1e-12);
    EXPECT_NEAR(s.at(75), (1 + 0.001) / 2, 1e-12);
    EXPECT_NEAR(s.at(100), 0.001, 1e-12);
  }
}

TEST_F(Schedulers, PolynomialFollowsItsPower) {
  Polynomial s(optimizer, 100, 0.1, 2);
  EXPECT_NEAR(s.at(0), 0.5, 1e-12);
  EXPECT_NEAR(s.at(50), 0.1 + 0.4 * 0.25, 1e-12);
  EXPECT_NEAR(s.at(100), 0.1, 1e-12);
}

TEST_F(Schedulers, StepWritesTheRateIntoTheOptimizer) {
  Lambda s(optimizer, [](std::int64_t step) { return 1.0 / (1.0 + static_cast<double>(step)); });
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
  s.step();
  EXPECT_EQ(optimizer.learning_rate(), 0.25);
  s.step();
  EXPECT_NEAR(optimizer.learning_rate(), 0.5 / 3, 1e-12);
  EXPECT_EQ(s.steps(), 2);
}

TEST_F(Schedulers, ReduceOnPlateauWaitsForItsPatience) {
  ReduceOnPlateau s(optimizer, {.factor = 0.5, .patience = 1});
  for (double loss : {1.0, 0.5, 0.5}) s.step(loss);
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
  s.step(0.49999);  // within the threshold: no improvement
  EXPECT_EQ(optimizer.learning_rate(), 0.25);
  s.step(0.1);
  EXPECT_EQ(optimizer.learning_rate(), 0.25);
}

TEST_F(Schedulers, RefuseLengthsThatMakeNoSense) {
  EXPECT_EQ(refusal([&] { CosineAnnealing(optimizer, 10, 0, 20); }),
            "lathe: CosineAnnealing: 10 steps with 20 of warm-up\n"
            "  help: total must be positive, and warm-up within 0 and total");
  EXPECT_EQ(refusal([&] { MultiStep(optimizer, {5, 2}); }),
            "lathe: MultiStep: the milestones are not in order");
}

}  // namespace
}  // namespace lathe::nn::schedulers
