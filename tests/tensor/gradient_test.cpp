// Gradients against central differences, second order, and how backward() accumulates.
#include <cmath>

#include "tensor/values.h"

namespace lathe {
namespace {

using testing::expect_gradient;
using testing::expect_values;
using testing::message_of;

struct Unary {
  const char* name;
  Tensor (Tensor::*function)() const;
  std::vector<double> at;
};

TEST(Gradient, EveryUnaryFunctionMatchesDifferences) {
  const std::vector<double> any{-2.1, -0.7, 0.3, 1.9}, positive{0.2, 0.9, 1.7, 3.1},
      inside{-0.9, -0.3, 0.2, 0.8};
  const Unary rows[] = {
      {"neg", &Tensor::neg, any},
      {"reciprocal", &Tensor::reciprocal, any},
      {"sqrt", &Tensor::sqrt, positive},
      {"rsqrt", &Tensor::rsqrt, positive},
      {"square", &Tensor::square, any},
      {"exp", &Tensor::exp, any},
      {"exp2", &Tensor::exp2, any},
      {"log", &Tensor::log, positive},
      {"log2", &Tensor::log2, positive},
      {"log10", &Tensor::log10, positive},
      {"sin", &Tensor::sin, any},
      {"cos", &Tensor::cos, any},
      {"tan", &Tensor::tan, inside},
      {"asin", &Tensor::asin, inside},
      {"acos", &Tensor::acos, inside},
      {"atan", &Tensor::atan, any},
      {"sinh", &Tensor::sinh, any},
      {"cosh", &Tensor::cosh, any},
      {"tanh", &Tensor::tanh, any},
      {"asinh", &Tensor::asinh, any},
      {"acosh", &Tensor::acosh, {1.2, 2.0, 3.5}},
      {"atanh", &Tensor::atanh, inside},
      {"erf", &Tensor::erf, any},
      {"erfc", &Tensor::erfc, any},
      {"abs", &Tensor::abs, any},
      {"relu", &Tensor::relu, any},
      {"relu6", &Tensor::relu6, any},
      {"sigmoid", &Tensor::sigmoid, any},
      {"hardsigmoid", &Tensor::hardsigmoid, any},
      {"hardswish", &Tensor::hardswish, any},
      {"selu", &Tensor::selu, any},
      {"quick_gelu", &Tensor::quick_gelu, any},
      {"silu", &Tensor::silu, any},
      {"mish", &Tensor::mish, any},
      {"logsigmoid", &Tensor::logsigmoid, any},
      {"softsign", &Tensor::softsign, any},
  };
  for (const Unary& row : rows) {
    SCOPED_TRACE(row.name);
    expect_gradient([&](const Tensor& x) { return (x.*row.function)(); }, row.at,
                    {static_cast<std::int64_t>(row.at.size())}, 1e-4);
  }
}

TEST(Gradient, FunctionsWithParametersMatchDifferences) {
  const std::vector<double> at{-2.1, -0.7, 0.3, 1.9};
  expect_gradient([](const Tensor& x) { return x.gelu(); }, at, {4});
  expect_gradient([](const Tensor& x) { return x.gelu("none"); }, at, {4}, 1e-4);
  expect_gradient([](const Tensor& x) { return x.elu(1.3); }, at, {4});
  expect_gradient([](const Tensor& x) { return x.celu(1.3); }, at, {4});
  expect_gradient([](const Tensor& x) { return x.leaky_relu(); }, at, {4});
  expect_gradient([](const Tensor& x) { return x.softplus(2); }, at, {4});
  expect_gradient([](const Tensor& x) { return x.pow(3); }, at, {4});
  expect_gradient([](const Tensor& x) { return x.clamp(-1.0, 1.0); }, at, {4});
  expect_gradient([](const Tensor& x) { return x.abs().pow(1.5); }, at, {4});
  expect_gradient([](const Tensor& x) { return x.rpow(2.0); }, at, {4});
}

TEST(Gradient, ReductionsAndMovementMatchDifferences) {
  const std::vector<double> at{0.4, -1.2, 2.2, 0.9, -0.3, 1.1};
  const Tensor weight({{1.0, -2.0, 0.5}, {0.25, 3.0, -1.0}}, {.dtype = dtypes::float64});
  auto check = [&](const char* name, const std::function<Tensor(const Tensor&)>& f) {
    SCOPED_TRACE(name);
    expect_gradient(f, at, {2, 3});
  };
  check("sum", [&](const Tensor& x) { return (x * weight).sum(0).square(); });
  check("prod", [&](const Tensor& x) { return x.prod(1); });
  check("max", [&](const Tensor& x) { return x.max(1) * 3; });
  check("min", [&](const Tensor& x) { return x.min(); });
  check("mean", [&](const Tensor& x) { return x.mean(1).square(); });
  check("var", [&](const Tensor& x) { return x.var(1); });
  check("std", [&](const Tensor& x) { return x.std(); });
  check("logsumexp", [&](const Tensor& x) { return x.logsumexp(1); });
  check("softmax", [&](const Tensor& x) { return x.softmax() * weight; });
  check("log_softmax", [&](const Tensor& x) { return x.log_softmax() * weight; });
  check("cumsum", [&](const Tensor& x) { return x.cumsum(1) * weight; });
  check("cumprod", [&](const Tensor& x) { return x.cumprod(1) * weight; });
  check("cummax", [&](const Tensor& x) { return x.cummax(1).first * weight; });
  check("logcumsumexp", [&](const Tensor& x) { return x.logcumsumexp(1) * weight; });
  check("permute", [&](const Tensor& x) { return x.T() * weight.T(); });
  check("pad", [&](const Tensor& x) { return x.pad({{1, 0}, {0, 2}}).square(); });
  check("shrink", [&](const Tensor& x) { return x.shrink({{0, 1}, {1, 3}}).square(); });
  check("flip", [&](const Tensor& x) { return x.flip(1) * weight; });
  check("expand", [&](const Tensor& x) { return x.unsqueeze(0).expand({4, 2, 3}).square(); });
  check("stride", [&](const Tensor& x) { return x.getitem({Slice{}, Slice{{}, {}, 2}}).square(); });
  check("unfold", [&](const Tensor& x) { return x.unfold(1, 2, 1).square(); });
  check("diagonal", [&](const Tensor& x) { return x.diagonal().square(); });
  check("cat", [&](const Tensor& x) { return Tensor::cat({x, x * 2}, 1).square(); });
  check("gather", [&](const Tensor& x) { return x.gather(1, Tensor({{0, 0}, {2, 1}})).square(); });
  check("rows", [&](const Tensor& x) { return x[Tensor({1, 0, 1})].square(); });
  check("scatter", [&](const Tensor& x) {
    return x.scatter(1, Tensor({{1}, {0}}), Tensor({{5.0}, {6.0}}, {.dtype = dtypes::float64})).square();
  });
  check("sort", [&](const Tensor& x) {
    Tensor y = x * 1;
    return y.sort(1).first * weight;
  });
  check("matmul", [&](const Tensor& x) { return x.dot(weight.T()).square(); });
  check("einsum", [&](const Tensor& x) { return Tensor::einsum("ij,kj->ik", {x, x}); });
  check("where", [&](const Tensor& x) { return (x > 0).where(x.square(), x * 3); });
  check("maximum", [&](const Tensor& x) { return x.maximum(weight); });
  check("layernorm", [&](const Tensor& x) { return x.layernorm() * weight; });
  check("normalize", [&](const Tensor& x) { return x.normalize() * weight; });
  check("cast", [&](const Tensor& x) { return x.cast(dtypes::float64).square(); });
  check("copy", [&](const Tensor& x) { return x.contiguous().contiguous_backward().square(); });
}

TEST(Gradient, TiesShareTheGradient) {
  Tensor x({1.0, 3.0, 3.0});
  expect_values(x.max().gradient({x})[0], {0, 0.5, 0.5});
  Tensor y({1.0, 3.0, 0.0});
  expect_values(x.maximum(y).sum().gradient({x})[0], {0.5, 0.5, 1});
}

TEST(Gradient, AProductWithZerosHasTheRightGradient) {
  Tensor one({2.0, 0.0, 5.0}), two({0.0, 0.0, 5.0});
  expect_values(one.prod().gradient({one})[0], {0, 10, 0});
  expect_values(two.prod().gradient({two})[0], {0, 0, 0});
}

TEST(Gradient, ConvolutionsAndPoolsMatchDifferences) {
  std::vector<double> at;
  for (int i = 0; i < 2 * 2 * 4 * 4; ++i) at.push_back(std::sin(i * 1.7) + 0.01 * i);
  std::vector<double> w;
  for (int i = 0; i < 4 * 1 * 3 * 3; ++i) w.push_back(std::cos(i * 0.9));
  Tensor weight(w, {4, 1, 3, 3}, {.dtype = dtypes::float64}),
      image(at, {2, 2, 4, 4}, {.dtype = dtypes::float64});
  ConvOptions options{.groups = 2, .stride = 2, .padding = 1};
  expect_gradient([&](const Tensor& x) { return x.conv2d(weight, nullptr, options).square(); }, at,
                  {2, 2, 4, 4});
  expect_gradient([&](const Tensor& k) { return image.conv2d(k, nullptr, options).square(); }, w,
                  {4, 1, 3, 3});
  expect_gradient(
      [&](const Tensor& k) {
        return image.conv_transpose2d(k.reshape({2, 2, 3, 3}), nullptr, {.stride = 2}).square();
      },
      w, {4, 1, 3, 3});
  expect_gradient([&](const Tensor& x) { return x.max_pool2d({2, 2}, {.stride = 1}).square(); }, at,
                  {2, 2, 4, 4});
  expect_gradient([&](const Tensor& x) { return x.avg_pool2d({3, 3}, {.stride = 2, .padding = 1}).square(); },
                  at, {2, 2, 4, 4});
}

TEST(Gradient, GradientsCanBeDifferentiatedAgain) {
  Tensor x({0.5, -1.5, 2.0}, {.dtype = dtypes::float64});
  Tensor first = (x.pow(3) * x.sin()).sum().gradient({x})[0];
  std::vector<double> second = first.sum().gradient({x})[0].tolist();
  const double at[] = {0.5, -1.5, 2.0};
  for (std::size_t i = 0; i < 3; ++i) {
    double v = at[i];
    EXPECT_NEAR(second[i], 6 * v * std::sin(v) + 6 * v * v * std::cos(v) - v * v * v * std::sin(v), 1e-9);
  }
  // A Hessian-vector product through a softmax.
  expect_gradient([](const Tensor& t) { return (t.softmax() * t).sum().gradient({t})[0].square(); },
                  {0.3, -0.2, 1.1}, {3});
}

TEST(Gradient, FlowsThroughAssignAndSetitemAsThroughTheirFunctionalForms) {
  Tensor x({1.0, 2.0, 3.0}, {.dtype = dtypes::float64}), v({5.0}, {.dtype = dtypes::float64});
  Tensor y = x * 2;
  y.setitem({Slice{1, 2}}, v * 3);
  auto grads = y.square().sum().gradient({x, v});
  expect_values(grads[0], {8, 0, 24});
  expect_values(grads[1], {90});
}

TEST(Gradient, BackwardAccumulatesAndStopsAtDetach) {
  Tensor x({1.0, 2.0}, {.requires_grad = true}), w({3.0, 4.0}, {.requires_grad = true});
  (x * w).sum().backward();
  expect_values(*x.grad(), {3, 4});
  (x * w.detach()).sum().backward();
  expect_values(*x.grad(), {6, 8});
  expect_values(*w.grad(), {1, 2});
  x.zero_grad();
  EXPECT_FALSE(x.grad().has_value());
}

TEST(Gradient, WorksAfterRealizing) {
  Tensor x({1.0, 2.0}, {.requires_grad = true});
  Tensor y = x * x;
  y.realize();
  x.realize();
  y.sum().backward();
  expect_values(*x.grad(), {2, 4});
  Tensor p = Tensor::rand({3});
  Tensor q = (p * p).sum();
  p.realize();
  std::vector<double> expected = (p * 2).tolist();
  expect_values(q.gradient({p})[0], expected, 1e-6);
}

TEST(Gradient, ParametersMadeOfEqualConstantsAreToldApart) {
  Tensor a = Tensor::ones({2}).requires_grad_(), b = Tensor::ones({2}).requires_grad_();
  (a * 2 + b * 3 + Tensor::ones({2})).sum().backward();
  expect_values(*a.grad(), {2, 2});
  expect_values(*b.grad(), {3, 3});
}

TEST(Gradient, AStepOfDescentUpdatesInPlace) {
  Tensor w({1.0, -1.0}, {.requires_grad = true});
  for (int step = 0; step < 3; ++step) {
    w.zero_grad();
    w.square().sum().backward();
    NoGradScope no_grad;
    w.assign(w - *w.grad() * 0.25);
    w.realize();
  }
  expect_values(w, {0.125, -0.125});
}

TEST(Gradient, ALossOverTheSameDataFollowsTheParameters) {
  Tensor w({4.0}, {.requires_grad = true}), loss;
  std::vector<double> losses;
  for (int step = 0; step < 4; ++step) {
    w.zero_grad();
    loss = w.square().sum();  // the expression is the same in every step, and the last one is still held
    loss.realize();
    loss.backward();
    NoGradScope no_grad;
    w.assign(w - *w.grad() * 0.25);
    w.realize();
    losses.push_back(loss.item());
  }
  EXPECT_EQ(losses, (std::vector<double>{16, 4, 1, 0.25}));
}

TEST(Gradient, NothingIsRecordedUnderNoGrad) {
  Tensor x({1.0}, {.requires_grad = true});
  NoGradScope no_grad;
  EXPECT_FALSE((x * 2).requires_grad());
}

TEST(Gradient, WhatIsComputedUnderNoGradHasNoPartInOne) {
  const Tensor x({1.0, 2.0}, {.requires_grad = true});
  Tensor doubled, view, assigned = Tensor::zeros({2});
  {
    const NoGradScope no_grad;
    doubled = x * 2;
    view = x.reshape({2, 1});
    assigned.assign(x);
  }
  expect_values((doubled * x).sum().gradient({x})[0], {2, 4});
  expect_values((view.reshape({2}) * x).sum().gradient({x})[0], {1, 2});
  expect_values((assigned * x).sum().gradient({x})[0], {1, 2});
  expect_values((x * x).sum().gradient({x})[0].sum().gradient({x})[0], {2, 2});
}

TEST(Gradient, TargetsThatTakeNoPartGetZeros) {
  Tensor x({1.0, 2.0}), y({3.0});
  expect_values(x.sum().gradient({y})[0], {0});
}

TEST(Gradient, TensorsThatAreEqualByChanceAreToldApart) {
  const Tensor x = Tensor({1.0, 2.0}).realize();
  const std::pair<const char*, std::function<Tensor()>> makers[] = {
      {"zeros", [] { return Tensor::zeros({2}).contiguous(); }},
      {"arange", [] { return Tensor::arange(2.0).contiguous(); }},
      {"realized zeros", [] { return Tensor::zeros({2}).contiguous().realize(); }},
      {"clone", [] { return Tensor::ones({2}).clone(); }},
      {"leaf of constants", [] { return Tensor::ones({2}).requires_grad_(); }},
      {"leaf of an expression", [&] { return (x * 2).requires_grad_(); }},
      {"realized expression", [&] { return (x * 2).realize(); }},
      {"data", [] { return Tensor({1.0, 2.0}); }},
  };
  for (const auto& [name, make] : makers) {
    const Tensor p = make(), q = make();
    const std::vector<Tensor> g = (p * 3 + q * 5).sum().gradient({p, q});
    EXPECT_EQ(g[0].tolist(), (std::vector<double>{3, 3})) << name;
    EXPECT_EQ(g[1].tolist(), (std::vector<double>{5, 5})) << name;
  }
  Tensor a = x * 2, b = x * 2;  // computed as one, and then two
  Tensor::realize_all(std::vector<Tensor>{a, b});
  const std::vector<Tensor> g = (a * 3 + b * 5).sum().gradient({a, b});
  EXPECT_EQ(g[0].tolist(), (std::vector<double>{3, 3}));
  EXPECT_EQ(g[1].tolist(), (std::vector<double>{5, 5}));
}

TEST(Gradient, TheSameExpressionMadeTwiceIsNoTarget) {
  const Tensor x({1.0, 2.0});
  const Tensor a = x * 2, b = x * 2;
  EXPECT_EQ(message_of([&] { (a * 3 + b * 5).sum().gradient({a, b}); }),
            "gradient: another tensor was made by the same expression as (2,) float32 on CPU, and equal "
            "expressions "
            "are one: the graph does not tell which of them it read");
}

TEST(Gradient, IsThatOfTheVersionThatWasRead) {
  for (int step = 0; step < 2; ++step) {
    Tensor p = Tensor({1.0, 2.0}).requires_grad_();
    if (step == 1) p.assign(p.detach() + 0).realize();  // a name of its own
    const Tensor loss = (p * p).sum(), linear = (p * 3).sum();
    p.assign(p.detach() + 10);
    EXPECT_EQ(loss.gradient({p})[0].tolist(), (std::vector<double>{2, 4}));
    p.setitem({Index(0)}, 7);
    loss.backward();
    ASSERT_TRUE(p.grad());
    EXPECT_EQ(p.grad()->tolist(), (std::vector<double>{2, 4}));
    EXPECT_EQ(linear.gradient({p})[0].tolist(), (std::vector<double>{3, 3}));
    EXPECT_EQ(p.tolist(), (std::vector<double>{7, 12}));
    EXPECT_EQ((p * p).sum().gradient({p})[0].tolist(), (std::vector<double>{14, 24}));
  }
}

TEST(Gradient, MemoryThatItNeedsAndThatWasOverwrittenIsAnError) {
  const std::string expected =
      "gradient: the gradient of () float32 on CPU reads a float32 of 2 elements that was written to since "
      "it was used";
  Tensor p = Tensor({1.0, 2.0}).requires_grad_();
  const Tensor loss = (p * p).sum(), linear = (p * 3).sum();
  p.assign(p.detach() + 10).realize();
  EXPECT_EQ(message_of([&] { loss.gradient({p}); }), expected);
  EXPECT_EQ(message_of([&] { loss.backward(); }), expected);
  EXPECT_EQ(linear.gradient({p})[0].tolist(), (std::vector<double>{3, 3}));  // reads nothing of it
  const Tensor later = (p * p).sum();
  p.assign(p.detach() + 1).realize();
  EXPECT_EQ(message_of([&] { later.backward(); }), expected);
  EXPECT_EQ((p * p).sum().gradient({p})[0].tolist(), (std::vector<double>{24, 26}));
}

TEST(Gradient, AParameterWrittenBetweenTwoUsesHasTheGradientsOfBoth) {
  Tensor p = Tensor({1.0, 2.0}).requires_grad_();
  Tensor loss = (p * p).sum();
  p.assign(p.detach() + 1);
  loss = loss + (p * 5).sum();
  EXPECT_EQ(loss.gradient({p})[0].tolist(), (std::vector<double>{7, 9}));  // of what it was: 2 p + 5
  loss.backward();
  EXPECT_EQ(p.grad()->tolist(), (std::vector<double>{7, 9}));
  Tensor x = Tensor({1.0, 2.0}).clone();  // not a parameter: the version it has now is meant
  const Tensor before = (x * x).sum();
  x.assign(x + 1);
  EXPECT_EQ((before + (x * 5).sum()).gradient({x})[0].tolist(), (std::vector<double>{5, 5}));
}

TEST(Gradient, AParameterIsOneVersionWhicheverOfItsUsesWasRealized) {
  for (const bool by_itself : {true, false}) {
    Tensor p = Tensor::full({3}, 1.0).contiguous().requires_grad_();
    Tensor before = p * 2;
    by_itself ? p.realize() : before.realize();
    const Tensor loss = before.sum() + (p * 5).sum() + p.detach().sum();
    EXPECT_EQ(loss.gradient({p})[0].tolist(), (std::vector<double>{7, 7, 7}));
    loss.backward();
    EXPECT_EQ(p.grad()->tolist(), (std::vector<double>{7, 7, 7}));
    p.assign(p.detach() + 1).realize();
    EXPECT_EQ((loss + p.sum()).gradient({p})[0].tolist(), (std::vector<double>{8, 8, 8}));
  }
}

TEST(Gradient, ANumberIsNoTargetBecauseEqualNumbersAreOne) {
  const Tensor x({5.0});
  for (const Tensor& number : {Tensor(2.0), Tensor::full({}, 2.0), Tensor(2.0).reshape({1, 1}),
                               Tensor::full({}, 2.0, {.dtype = dtypes::float16})})
    EXPECT_NE(message_of([&] {
                (number.cast(dtypes::float32) * 3 + x * 2.0).sum().gradient({number});
              }).find("is a constant, and equal constants are one"),
              std::string::npos);
  Tensor asked = Tensor(2.0).requires_grad_();
  EXPECT_EQ((asked * 3 + x * 2.0).sum().gradient({asked})[0].item<double>(), 3);
}

// Realizing what a parameter was made of is no write: both uses have a part of the gradient.
TEST(Gradient, AParameterThatWasRealizedBetweenItsUsesIsOneVersion) {
  const std::function<Tensor()> made[] = {
      [] { return Tensor::full({2}, 2.0); }, [] { return Tensor::full({2}, 2.0).contiguous(); },
      [] { return Tensor::arange(2).cast(dtypes::float32) * 0 + 2; }, [] { return Tensor({2.0, 2.0}); }};
  for (const auto& make : made) {
    Tensor p = make().requires_grad_();
    const Tensor square = (p * p).realize();
    EXPECT_EQ((square + p * 3).sum().gradient({p})[0].tolist(), (std::vector<double>{7, 7}));
    (square + p * 3).sum().backward();
    EXPECT_EQ(p.grad()->tolist(), (std::vector<double>{7, 7}));
    p.assign(p.detach() + 1).realize();
    EXPECT_THROW((square + p * 3).sum().gradient({p}), UserError);
  }
}

// A target that is an expression has no memory that the realized value could be found to come from.
TEST(Gradient, BehindWhatWasRealizedIsNotZeroForAnExpressionEither) {
  const std::function<Tensor()> made[] = {[] { return Tensor({1.0, 2.0}).exp(); },
                                          [] { return Tensor::rand({2}); },
                                          [] { return Tensor({1.0, 2.0}).realize().cast(dtypes::float16); }};
  const auto refusal = [](const Tensor& value, const Tensor& target) {
    return message_of([&] { (value * 3).sum().gradient({target}); });
  };
  for (const auto& make : made) {
    const Tensor alone = make(), doubled = (alone * 2).realize();
    EXPECT_NE(refusal(doubled, alone).find("by way of a tensor that was realized"), std::string::npos);
    const Tensor further = (doubled + 1).realize();
    EXPECT_NE(refusal(further, alone).find("by way of a tensor that was realized"), std::string::npos);
    Tensor beside = make(), after = (beside * 2).realize();
    beside.realize();
    EXPECT_NE(refusal(after, beside).find("by way of a tensor that was realized"), std::string::npos);
  }
  const Tensor aside = Tensor({1.0, 2.0}).exp(), other = Tensor({1.0, 2.0}).sin(),
               read = (other * 2).realize();
  EXPECT_EQ((read * 3).sum().gradient({aside})[0].tolist(), (std::vector<double>{0, 0}));
}

TEST(Gradient, WhatHasNoneIsSaid) {
  const Tensor i({1, 2}), x({1.0, 2.0});
  EXPECT_EQ(message_of([&] { (i * 2.0).sum().gradient({i}); }),
            "gradient: target (2,) int32 on CPU has no gradient: only floats have");
  Tensor loss = (x * x).sum();
  loss.realize();
  EXPECT_EQ(message_of([&] { loss.gradient({x}); }),
            "gradient: () float32 on CPU is data, with no expression to differentiate");
}

TEST(Gradient, RefusalsSayWhatIsNeeded) {
  Tensor x({1.0, 2.0});
  EXPECT_EQ(message_of([&] { x.gradient({x}); }), "gradient: the tensor has shape (2,), not one element");
  EXPECT_EQ(message_of([&] { Tensor({1}).gradient({x}); }),
            "gradient: (1,) int32 on " + default_device() + " has no gradients");
  EXPECT_EQ(message_of([&] { x.sum().backward(); }),
            "backward: () float32 on " + default_device() +
                " does not depend on any tensor that requires a gradient");
  EXPECT_EQ(message_of([&] { Tensor({1}).requires_grad_(); }), "requires_grad_: int32 has no gradients");
}

TEST(Gradient, ACustomOpUsesItsOwnGradient) {
  register_op({.name = "test_scaled_square",
               .forward = [](const std::vector<Tensor>& in) { return in[0] * in[0] * in[1]; },
               .gradient =
                   [](const std::vector<Tensor>& in, const Tensor&, const Tensor& g) {
                     return std::vector<Tensor>{g * in[0] * in[1] * 2, g * in[0] * in[0]};
                   }});
  register_op({.name = "test_cube",
               .forward = [](const std::vector<Tensor>& in) { return in[0].pow(3); },
               .gradient = {}});
  const Tensor s({2.0, 3.0}, {.dtype = dtypes::float64});
  expect_gradient([&](const Tensor& x) { return custom("test_scaled_square", {x, s}); }, {1.5, -0.5}, {2});
  expect_gradient([&](const Tensor& x) { return custom("test_cube", {x}); }, {1.5, -0.5}, {2});
  EXPECT_EQ(message_of([] { custom("test_nothing", {Tensor({1.0})}); }),
            "custom: no op is registered as \"test_nothing\"");
  EXPECT_EQ(
      message_of([] { register_op({"test_cube", [](const std::vector<Tensor>& in) { return in[0]; }, {}}); }),
      "register_op: \"test_cube\" is registered already");
}

TEST(Gradient, AMillionNodesDoNotOverflowTheStack) {
  Tensor x({1.0});
  Tensor y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y + x;
  Tensor g = y.sum().gradient({x})[0];
  EXPECT_EQ(g.ndim(), 1);
}

// A loss may be begun before a leaf is computed and ended after: both uses count.
TEST(Gradient, ALeafRealizedBetweenTwoUsesGetsTheGradientOfBoth) {
  for (bool written : {false, true}) {
    Tensor w = (Tensor({1.0, 2.0}) * 3).requires_grad_();
    if (written) w.assign(Tensor({4.0, 5.0}));
    Tensor first = (w * 3).sum();
    w.realize();
    Tensor loss = first + (w * 2).sum();
    expect_values(loss.gradient({w})[0], {5, 5});
    Tensor row = w.reshape({1, 2});
    expect_values(loss.gradient({w, row})[0], {5, 5});
    loss.backward();
    expect_values(*w.grad(), {5, 5});
  }
  // A copy passes its gradient on once.
  Tensor x = Tensor({1.0, 2.0}) * 2, copy = x.contiguous();
  Tensor y = (copy * 3).sum() + (x * 2).sum();
  copy.realize();
  x.realize();
  expect_values((y + x.sum()).gradient({x})[0], {6, 6});
}

TEST(Gradient, ATensorThatAsksAgainGetsItsGradientOnce) {
  Tensor w = Tensor(std::vector<float>{3}).requires_grad_();
  w.requires_grad_(false);
  w.requires_grad_(true);
  (w * 2).sum().backward();
  EXPECT_EQ(w.grad()->item(), 2);
}

// A number has no axes; beside one that is summed over, its movements have not that one.
TEST(Gradient, OfANumberThatIsMultipliedBeforeASumInAnotherDtype) {
  for (DataType dtype : {dtypes::float64, dtypes::float32, dtypes::float16}) {
    const Tensor a = Tensor(2.0).cast(dtype).contiguous().requires_grad_();
    const Tensor v = Tensor({1.0, 2.0, 4.0}).cast(dtype).contiguous();
    const Tensor loss = (a * v).sum(0).cast(dtypes::float32) * 3;
    expect_values(loss.gradient({a})[0], {21});
    expect_values(loss, {42});
  }
}

// The gradient of a softmax may be made of a sum that its weights went into, which then has to be as precise.
TEST(Gradient, ASoftmaxOfDoublesSummedInFloatsHasThePrecisionOfDoubles) {
  const Tensor x = Tensor::ones({5}).cast(dtypes::float64).contiguous().requires_grad_();
  const Tensor w(std::vector<float>{-1, 0, 2, -1, 1});
  for (const Tensor& loss : {(x.softmax().cast(dtypes::float32) * w).sum(),
                             (x.softmax().cast(dtypes::float32).cast(dtypes::float64) * w).sum()})
    expect_values(loss.gradient({x})[0], {-0.24, -0.04, 0.36, -0.24, 0.16}, 1e-15);
}

TEST(Gradient, WhatWasDetachedMayHaveReadAnotherVersion) {
  Tensor w = Tensor(std::vector<float>{3}).contiguous().requires_grad_();
  Tensor hidden = Tensor(std::vector<float>{1}).contiguous().realize();
  for (int step = 0; step < 3; ++step) {
    w.set_grad(std::nullopt);
    hidden = (hidden.detach() * w).tanh();
    hidden.sum().backward();
    w.assign(w.detach() - *w.grad() * 0.1).realize();
  }
  EXPECT_TRUE(std::isfinite(hidden.sum().item()));
}

}  // namespace
}  // namespace lathe
