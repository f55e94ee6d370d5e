// Every optimizer against its formula in double, for a few steps with gradients that are known.
#include "lathe/optim.h"

#include <functional>

#include "nn/support.h"

namespace lathe::nn::optim {
namespace {

class Optim : public testing::Test {
 private:
  TrainingScope training_;
};

constexpr int kSteps = 4;
const Values kStart = {0.5, -1.5, 2.0, 0.25, -0.75, 1.0};
const Shape kShape = {2, 3};

Values gradient_at(int step) { return random_values(kStart.size(), 20 + static_cast<std::uint32_t>(step)); }

// Steps the optimizer with known gradients and the formula beside it; compares after every step.
void check_formula(const std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>& make,
                   const std::function<void(int step, Values& p, const Values& g)>& formula) {
  Tensor p = parameter_of(kStart, kShape);
  auto optimizer = make({p});
  Values wanted = kStart;
  for (int step = 1; step <= kSteps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    optimizer->zero_grad();
    const Values g = gradient_at(step);
    (p * tensor_of(g, kShape)).sum().backward();
    optimizer->step();
    formula(step, wanted, g);
    expect_near(p, wanted, 2e-6);
  }
}

double norm(const Values& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

TEST_F(Optim, SgdWithAndWithoutMomentumNesterovAndDecay) {
  for (const SGDOptions& o :
       {SGDOptions{}, SGDOptions{0, 0.1, false}, SGDOptions{0.9, 0, false}, SGDOptions{0.9, 0.1, true}}) {
    Values velocity(kStart.size());
    check_formula([&](auto ps) { return std::make_unique<SGD>(ps, 0.1, o); },
                  [&](int, Values& p, const Values& g) {
                    for (std::size_t i = 0; i < p.size(); ++i) {
                      const double full = g[i] + o.weight_decay * p[i];
                      velocity[i] = o.momentum * velocity[i] + full;
                      p[i] -= 0.1 * (o.nesterov ? full + o.momentum * velocity[i] : velocity[i]);
                    }
                  });
  }
}

// The direction of Adam for the element, keeping m and v.
struct AdamState {
  Values m = Values(kStart.size()), v = Values(kStart.size());
  double next(std::size_t i, int step, double g, const AdamOptions& o) {
    m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
    v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
    return m[i] / (1 - std::pow(o.beta1, step)) / (std::sqrt(v[i] / (1 - std::pow(o.beta2, step))) + o.eps);
  }
};

TEST_F(Optim, AdamPutsItsDecayIntoTheGradient) {
  for (double decay : {0.0, 0.1}) {
    const AdamOptions o{.weight_decay = decay};
    AdamState state;
    check_formula([&](auto ps) { return std::make_unique<Adam>(ps, 0.05, o); },
                  [&](int step, Values& p, const Values& g) {
                    for (std::size_t i = 0; i < p.size(); ++i)
                      p[i] -= 0.05 * state.next(i, step, g[i] + decay * p[i], o);
                  });
  }
}

TEST_F(Optim, AdamWKeepsItsDecayApart) {
  const AdamOptions o{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};
  AdamState state;
  check_formula([&](auto ps) { return std::make_unique<AdamW>(ps, 0.05, o); },
                [&](int step, Values& p, const Values& g) {
                  for (std::size_t i = 0; i < p.size(); ++i)
                    p[i] -= 0.05 * (state.next(i, step, g[i], o) + 0.1 * p[i]);
                });
}

TEST_F(Optim, LambScalesTheDirectionToTheParameter) {
  const AdamOptions o{.eps = 1e-6, .weight_decay = 0.1};
  AdamState state;
  check_formula([&](auto ps) { return std::make_unique<LAMB>(ps, 0.05, o); },
                [&](int step, Values& p, const Values& g) {
                  Values way;
                  for (std::size_t i = 0; i < p.size(); ++i)
                    way.push_back(state.next(i, step, g[i], o) + 0.1 * p[i]);
                  const double ratio = norm(p) / norm(way);
                  for (std::size_t i = 0; i < p.size(); ++i) p[i] -= 0.05 * ratio * way[i];
                });
}

TEST_F(Optim, LarsScalesTheGradientToTheParameter) {
  const LARSOptions o{.momentum = 0.9, .weight_decay = 0.1, .trust = 0.01};
  Values velocity(kStart.size());
  check_formula([&](auto ps) { return std::make_unique<LARS>(ps, 0.5, o); },
                [&](int, Values& p, const Values& g) {
                  const double trust = o.trust * norm(p) / (norm(g) + o.weight_decay * norm(p));
                  for (std::size_t i = 0; i < p.size(); ++i) {
                    velocity[i] = o.momentum * velocity[i] + trust * (g[i] + o.weight_decay * p[i]);
                    p[i] -= 0.5 * velocity[i];
                  }
                });
}

// Newton-Schulz steps on a matrix of 2 x 3: X <- a X + b (X X^T) X + c (X X^T)^2 X, from X / |X|.
Values orthogonalized(Values x, const MuonOptions& o) {
  constexpr std::size_t kRows = 2, kColumns = 3;
  const double length = norm(x) + 1e-7;
  for (double& v : x) v /= length;
  for (std::int64_t step = 0; step < o.steps; ++step) {
    double gram[kRows][kRows] = {};
    for (std::size_t a = 0; a < kRows; ++a)
      for (std::size_t b = 0; b < kRows; ++b)
        for (std::size_t i = 0; i < kColumns; ++i) gram[a][b] += x[a * kColumns + i] * x[b * kColumns + i];
    Values power = x, next(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) next[i] = o.coefficients[0] * x[i];
    for (std::size_t c = 1; c < o.coefficients.size(); ++c) {
      Values product(x.size());
      for (std::size_t a = 0; a < kRows; ++a)
        for (std::size_t b = 0; b < kRows; ++b)
          for (std::size_t i = 0; i < kColumns; ++i)
            product[a * kColumns + i] += gram[a][b] * power[b * kColumns + i];
      power = product;
      for (std::size_t i = 0; i < x.size(); ++i) next[i] += o.coefficients[c] * power[i];
    }
    x = next;
  }
  return x;
}

TEST_F(Optim, MuonMakesTheDirectionOfMomentumOrthogonal) {
  for (const MuonOptions& o : {MuonOptions{}, MuonOptions{.momentum = 0.9, .nesterov = false},
                               MuonOptions{.momentum = 0, .weight_decay = 0}}) {
    Values velocity(kStart.size());
    check_formula([&](auto ps) { return std::make_unique<Muon>(ps, 0.05, o); },
                  [&](int, Values& p, const Values& g) {
                    Values way = g;
                    for (std::size_t i = 0; i < p.size() && o.momentum != 0; ++i) {
                      velocity[i] = o.momentum * velocity[i] + g[i];
                      way[i] = o.nesterov ? g[i] + o.momentum * velocity[i] : velocity[i];
                    }
                    way = orthogonalized(way, o);
                    for (std::size_t i = 0; i < p.size(); ++i)
                      p[i] = p[i] * (1 - 0.05 * o.weight_decay) - 0.05 * way[i];
                  });
  }
}

TEST_F(Optim, MuonStepsAlongANearlyOrthogonalMatrix) {
  Tensor p = parameter_of(kStart, kShape);
  Muon optimizer({p}, 1.0, {.momentum = 0, .weight_decay = 0});
  (p * tensor_of(gradient_at(1), kShape)).sum().backward();
  optimizer.step();
  const Values after = p.tolist();
  // The change O has O O^T near the identity: Newton-Schulz leaves singular values between about 0.7 and 1.2.
  for (std::size_t a = 0; a < 2; ++a)
    for (std::size_t b = 0; b < 2; ++b) {
      double dot = 0;
      for (std::size_t i = 0; i < 3; ++i)
        dot += (after[a * 3 + i] - kStart[a * 3 + i]) * (after[b * 3 + i] - kStart[b * 3 + i]);
      EXPECT_NEAR(dot, a == b ? 1 : 0, 0.6);
    }
  EXPECT_EQ(refusal([] { Muon({parameter(Tensor::ones({3}))}); }).substr(0, 70),
            "lathe: Muon: a parameter has shape (3,), two axes are needed\n  help: g");
}

TEST_F(Optim, AChangedLearningRateIsUsedByTheNextStep) {
  Tensor p = parameter_of({1, 1}, {2});
  SGD optimizer({p}, 0.5);
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
  optimizer.set_learning_rate(0.25);
  p.sum().backward();
  optimizer.step();
  expect_near(p, {0.75, 0.75});
  EXPECT_EQ(optimizer.learning_rate(), 0.25);
}

TEST_F(Optim, StateIsSavedAndLoadedByName) {
  Tensor p = parameter_of(kStart, kShape), q = parameter_of(kStart, kShape);
  Adam first({p}), second({q});
  for (int step = 1; step <= 2; ++step) {
    first.zero_grad();
    (p * tensor_of(gradient_at(step), kShape)).sum().backward();
    first.step();
  }
  EXPECT_EQ(names_of(get_state_dict(first)),
            (std::vector<std::string>{"lr", "weight_sum1", "weight_sum2", "m.0", "v.0"}));
  load_state_dict(second, get_state_dict(first));
  q.assign(p).realize();
  for (Tensor* t : {&p, &q}) {
    t->zero_grad();
    (*t * tensor_of(gradient_at(3), kShape)).sum().backward();
  }
  first.step();
  second.step();
  expect_near(q, p.tolist(), 0);
}

TEST_F(Optim, AGroupStepsAllItsOptimizers) {
  Tensor p = parameter_of({1, 1}, {2}), q = parameter_of({1, 1}, {2});
  OptimizerGroup group({std::make_shared<SGD>(std::vector<Tensor>{p}, 0.5),
                        std::make_shared<SGD>(std::vector<Tensor>{q}, 0.25)});
  (p + q).sum().backward();
  group.step();
  expect_near(p, {0.5, 0.5});
  expect_near(q, {0.75, 0.75});
  EXPECT_EQ(names_of(get_state_dict(group)), (std::vector<std::string>{"0.lr", "1.lr"}));
}

TEST_F(Optim, BuffersAmongTheParametersAreRealizedAndLeftAlone) {
  BatchNorm norm(2);
  SGD optimizer(get_parameters(norm), 0.1);
  EXPECT_EQ(optimizer.parameters().size(), 2U);
  norm(tensor_of({1, 2, 3, 4}, {2, 2})).square().sum().backward();
  optimizer.step();
  EXPECT_TRUE(norm.running_mean.is_realized());
  expect_near(norm.running_mean, {0.2, 0.3});
}

TEST_F(Optim, RefusesWhatCannotBeTrained) {
  EXPECT_EQ(refusal([] { SGD({Tensor::ones({2})}); }),
            "lathe: optimizer: no parameter requires a gradient\n  help: pass nn::get_parameters(net)");
  Tensor p = parameter(Tensor::ones({2}));
  EXPECT_EQ(refusal([&] { SGD({p}).step(); }),
            "lathe: optimizer: parameter 0 of shape (2,) has no gradient\n  help: call loss.backward() "
            "before step()");
  EXPECT_EQ(refusal([&] { SGD({p}, -1); }), "lathe: optimizer: the learning rate is -1, which is negative");
  EXPECT_EQ(refusal([] { SGD({}); }), "lathe: optimizer: the list of parameters is empty");
  EXPECT_EQ(refusal([&] { SGD({p}, 0.1, {.momentum = -0.5}); }),
            "lathe: SGD: momentum is -0.5, which is not a number of at least 0");
  EXPECT_EQ(refusal([&] { LARS({p}, 0.1, {.weight_decay = -1}); }),
            "lathe: LARS: weight_decay is -1, which is not a number of at least 0");
  EXPECT_EQ(refusal([&] { Adam({p}, 0.1, {.weight_decay = -1}); }),
            "lathe: Adam: weight_decay is -1, which is not a number of at least 0");
  EXPECT_EQ(refusal([&] { AdamW({p}, 0.1, {.beta2 = 1}); }),
            "lathe: Adam: beta2 is 1, which is outside [0, 1)");
  EXPECT_EQ(refusal([&] { Adam({p}, 0.1, {.eps = std::nan("")}); }),
            "lathe: Adam: eps is nan, which is not a number of at least 0");
}

TEST(OptimMode, AStepAfterDropoutOutsideOfTrainingModeIsRefused) {
  Tensor p = parameter_of({1, 1}, {2});
  SGD optimizer({p}, 0.5);
  p.dropout(0.5).sum().backward();
  const std::string text =
      "lathe: optimizer: a step outside training mode, after dropout or batch norm was computed there\n"
      "  note: there dropout does nothing and batch norm uses and keeps its old statistics\n"
      "  help: compute the loss and step inside of Tensor.train() (in C++: TrainingScope training; or "
      "net.train())";
  EXPECT_EQ(refusal([&] { optimizer.step(); }), text);
  EXPECT_EQ(refusal([&] { optimizer.step(); }), text);  // asking again does not make it right
  expect_near(p, {1, 1}, 0);
  const TrainingScope training;
  optimizer.step();
  expect_near(p, {0.5, 0.5}, 0);
}

// What happens before the step of an optimizer of `mine`, and whether that is refused. `other` is a parameter
// that this optimizer does not have.
struct Order {
  const char* name;
  bool refused;
  void (*events)(Tensor& mine, Tensor& other);
};
constexpr Order kOrders[] = {
    {"dropout on the way", true, [](Tensor& p, Tensor&) { (p * 2).dropout(0.5).sum().backward(); }},
    {"dropout of data", true,
     [](Tensor& p, Tensor&) { (Tensor::ones({2}).dropout(0.5) * p).sum().backward(); }},
    {"dropout of data without gradients", false,
     [](Tensor& p, Tensor& q) { (q.detach().dropout(0.5).detach() * p).sum().backward(); }},
    {"batch norm that nobody told", true,
     [](Tensor& p, Tensor&) { BatchNorm(2)(p.expand({3, 2})).square().sum().backward(); }},
    {"batch norm told not to train", false,
     [](Tensor& p, Tensor&) {
       BatchNorm norm(2);
       norm.eval();
       norm(p.expand({3, 2})).square().sum().backward();
     }},
    {"dropout told to train", false,
     [](Tensor& p, Tensor&) {
       Dropout drop(0.5);
       drop.train();
       drop(p).sum().backward();
     }},
    {"another net was told to train before", true,
     [](Tensor& p, Tensor& q) {
       Dropout drop(0.5);
       drop.train();
       drop(q).sum().backward();
       p.dropout(0.5).sum().backward();
     }},
    {"another net was told to train after", true,
     [](Tensor& p, Tensor& q) {
       p.dropout(0.5).sum().backward();
       Dropout drop(0.5);
       drop.train();
       drop(q).sum().backward();
     }},
    {"only another net met dropout", false,
     [](Tensor& p, Tensor& q) {
       p.sum().backward();
       q.dropout(0.5).sum().backward();
     }},
    {"an evaluation before", false,
     [](Tensor& p, Tensor&) {
       p.dropout(0.5).sum().realize();
       p.sum().backward();
     }},
    {"an evaluation between gradients and step", false,
     [](Tensor& p, Tensor&) {
       p.sum().backward();
       p.dropout(0.5).sum().realize();
     }},
    {"an evaluation without gradients that is used", false,
     [](Tensor& p, Tensor&) {
       Tensor seen;
       {
         NoGradScope no_grad;
         seen = p.dropout(0.5);
       }
       (p * seen).sum().backward();
     }},
    {"gradients forgotten since", false,
     [](Tensor& p, Tensor&) {
       p.dropout(0.5).sum().backward();
       p.zero_grad();
       p.sum().backward();
     }},
    {"one of two gradients added up", true,
     [](Tensor& p, Tensor&) {
       p.dropout(0.5).sum().backward();
       p.sum().backward();
     }},
    {"the other of two gradients added up", true,
     [](Tensor& p, Tensor&) {
       p.sum().backward();
       p.dropout(0.5).sum().backward();
     }},
    {"gradients clipped", true,
     [](Tensor& p, Tensor&) {
       p.dropout(0.5).sum().backward();
       clip_grad_norm({p}, 0.5);
     }},
    {"gradients read", true,
     [](Tensor& p, Tensor&) {
       p.dropout(0.5).sum().backward();
       p.grad()->realize();
     }},
    {"the value was realized on the way", true,
     [](Tensor& p, Tensor&) {
       const Tensor h = (p * 2).dropout(0.5).realize();
       h.sum().backward();
     }},
    {"a mode was said", false,
     [](Tensor& p, Tensor&) {
       const TrainingScope training;
       p.dropout(0.5).sum().backward();
     }},
    {"a mode was said to be off", false,
     [](Tensor& p, Tensor&) {
       const TrainingScope inference(false);
       p.dropout(0.5).sum().backward();
     }},
    {"a mode was said elsewhere", true,
     [](Tensor& p, Tensor& q) {
       {
         const TrainingScope training;
         q.dropout(0.5).sum().backward();
       }
       p.dropout(0.5).sum().backward();
     }},
};

TEST(OptimMode, AStepIsRefusedExactlyWhereItsGradientsCameFromAModeNobodySaid) {
  for (const Order& order : kOrders) {
    SCOPED_TRACE(order.name);
    Tensor p = parameter_of({1, 2}, {2}), q = parameter_of({3, 4}, {2});
    SGD optimizer({p}, 0.5);
    order.events(p, q);
    const std::string text = order.refused ? refusal([&] { optimizer.step(); }) : "";
    if (order.refused)
      EXPECT_NE(text.find("outside training mode"), std::string::npos) << text;
    else
      optimizer.step();
  }
}

// The parameters themselves do not carry what one step's gradients came from.
TEST(OptimMode, AStepInTrainingModeLeavesNothingBehind) {
  Tensor p = parameter_of({1, 1}, {2});
  SGD optimizer({p}, 0.5);
  p.dropout(0.5).sum().backward();
  {
    const TrainingScope training;
    optimizer.step();
  }
  optimizer.zero_grad();
  p.sum().backward();
  optimizer.step();
  expect_near(p, {0, 0}, 0);
}

TEST(OptimMode, AStepOutsideOfTrainingModeIsTakenWhereNothingDependsOnIt) {
  Tensor p = parameter_of({1, 1}, {2});
  SGD optimizer({p}, 0.5);
  p.sum().backward();
  optimizer.step();
  expect_near(p, {0.5, 0.5}, 0);
}

TEST(Clip, TheCommonNormIsBroughtDownToTheLimit) {
  Tensor p = parameter_of({1, 1}, {2}), q = parameter_of({1}, {1});
  (p * tensor_of({3, 0}, {2})).sum().add((q * 4.0).sum()).backward();
  const Tensor before = clip_grad_norm({p, q}, 1.0);
  EXPECT_NEAR(before.item(), 5, 1e-5);
  expect_near(*p.grad(), {0.6, 0});
  expect_near(*q.grad(), {0.8});
  EXPECT_NEAR(clip_grad_norm({p, q}, 10.0).item(), 1, 1e-5);
  expect_near(*q.grad(), {0.8});
}

TEST(Clip, EveryElementIsBroughtWithinTheLimit) {
  Tensor p = parameter_of({1, 1, 1}, {3});
  (p * tensor_of({3, -2, 0.5}, {3})).sum().backward();
  clip_grad_value({p}, 1.0);
  expect_near(*p.grad(), {1, -1, 0.5});
}

}  // namespace
}  // namespace lathe::nn::optim
