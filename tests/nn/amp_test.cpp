#include "lathe/amp.h"

#include "nn/support.h"

namespace lathe::nn::optim {
namespace {

class Scaling : public testing::Test {
 private:
  TrainingScope training_;
};

TEST_F(Scaling, AStepIsThatOfTheUnscaledLoss) {
  Tensor p = parameter_of({1.0, 2.0}, {2});
  SGD optimizer({p}, 0.5);
  GradScaler scaler({.init_scale = 1024});
  scaler.scale((p * tensor_of({3.0, -1.0}, {2})).sum()).backward();
  EXPECT_EQ(p.grad()->tolist(), (Values{3072, -1024}));
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_EQ(p.grad()->tolist(), (Values{3, -1}));
  EXPECT_EQ(p.tolist(), (Values{-0.5, 2.5}));
}

TEST_F(Scaling, SmallGradientsSurviveInHalfPrecision) {
  Tensor p = parameter_of({1.0}, {1});
  auto gradient = [&](double scale) {
    p.zero_grad();
    const Tensor loss = (p.cast(dtypes::float16) * 1e-4).cast(dtypes::float16) * 1e-4;
    GradScaler scaler({.init_scale = scale});
    SGD optimizer({p}, 0);
    scaler.scale(loss.sum()).backward();
    scaler.unscale(optimizer);
    return p.grad()->item();
  };
  EXPECT_EQ(gradient(1), 0) << "1e-8 is nothing in half precision";
  EXPECT_NEAR(gradient(65536 / 8.0), 1e-8, 1e-10);
}

TEST_F(Scaling, StepsWithoutFiniteGradientsAreSkippedAndTheScaleBacksOff) {
  Tensor p = parameter_of({1.0}, {1});
  SGD optimizer({p}, 1);
  GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  auto step = [&](double factor) {
    optimizer.zero_grad();
    scaler.scale((p * factor).sum()).backward();
    const bool stepped = scaler.step(optimizer);
    scaler.update();
    return stepped;
  };
  EXPECT_FALSE(step(INFINITY));
  EXPECT_EQ(p.item(), 1);
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_TRUE(step(0.25));
  EXPECT_EQ(p.item(), 0.75);
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_TRUE(step(0.25));
  EXPECT_EQ(scaler.get_scale(), 8) << "after growth_interval good steps";
  EXPECT_FALSE(step(NAN));
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST_F(Scaling, ItsStateIsSavedAndLoadedByName) {
  Tensor p = parameter_of({1.0}, {1});
  SGD optimizer({p}, 0);
  GradScaler one({.init_scale = 8, .growth_interval = 2}), other({.growth_interval = 2});
  one.scale(p.sum()).backward();
  one.step(optimizer);
  one.update();
  load_state_dict(other, get_state_dict(one));
  EXPECT_EQ(other.get_scale(), 8);
  other.scale(p.sum()).backward();
  other.step(optimizer);
  other.update();
  EXPECT_EQ(other.get_scale(), 16) << "the second good step in a row";
}

TEST_F(Scaling, RefusesWhatIsOutOfOrder) {
  Tensor p = parameter_of({1.0}, {1});
  SGD optimizer({p}, 0);
  GradScaler scaler;
  EXPECT_NE(refusal([&] { scaler.update(); }).find("nothing was stepped"), std::string::npos);
  EXPECT_NE(refusal([&] { scaler.unscale(optimizer); }).find("no parameter has a gradient"),
            std::string::npos);
  scaler.scale(p.sum()).backward();
  scaler.unscale(optimizer);
  EXPECT_NE(refusal([&] { scaler.unscale(optimizer); }).find("unscaled already"), std::string::npos);
  EXPECT_NE(refusal([] { GradScaler({.growth_factor = 1}); }).find("grows by 1"), std::string::npos);
}

}  // namespace
}  // namespace lathe::nn::optim
