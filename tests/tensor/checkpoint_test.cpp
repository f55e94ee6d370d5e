#include "lathe/checkpoint.h"

#include "engine/engine.h"
#include "tensor/values.h"

namespace lathe::testing {
namespace {

Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Tensor::manual_seed(seed);
  Tensor t = Tensor::empty(shape);
  t.assign(Tensor::uniform(shape, -1, 1));
  return t.realize();
}

struct Net {
  std::vector<Tensor> weights;
  explicit Net(std::size_t layers, std::int64_t size = 8) {
    for (std::size_t i = 0; i < layers; ++i)
      weights.push_back(numbers({size, size}, 10 + i).requires_grad_());
  }
  Tensor block(const Tensor& x, std::size_t i) const { return x.matmul(weights[i]).tanh().square().sin(); }
};

TEST(Checkpoint, ValuesAndGradientsAreThoseOfThePlainCall) {
  Tensor x = numbers({4, 8}, 1).requires_grad_();
  auto run = [&](bool with) {
    Net net(3);
    x.zero_grad();
    Tensor y = x;
    for (std::size_t i = 0; i < 3; ++i)
      y = with ? checkpoint([&](const std::vector<Tensor>& in) { return net.block(in[0], i); }, {y})
               : net.block(y, i);
    (y * y).sum().backward();
    std::vector<std::vector<double>> out{y.tolist(), x.grad()->tolist()};
    for (const Tensor& w : net.weights) out.push_back(w.grad()->tolist());
    return out;
  };
  const auto plain = run(false), with = run(true);
  for (std::size_t i = 0; i < plain.size(); ++i)
    for (std::size_t j = 0; j < plain[i].size(); ++j)
      ASSERT_NEAR(plain[i][j], with[i][j], 1e-6) << i << " " << j;
}

TEST(Checkpoint, TensorsOutsideTheInputsGetTheirGradientOnce) {
  Tensor w = numbers({3}, 2).requires_grad_(), x = numbers({3}, 3).requires_grad_();
  const Tensor h = w * 2;  // used inside without being an input, and itself made of a parameter
  const Tensor y = checkpoint([&](const std::vector<Tensor>& in) { return in[0] * h * w; }, {x});
  y.sum().backward();
  const auto wv = w.tolist(), xv = x.tolist();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(w.grad()->tolist()[i], 4 * xv[i] * wv[i], 1e-6);  // d(2 x w^2)/dw
    EXPECT_NEAR(x.grad()->tolist()[i], 2 * wv[i] * wv[i], 1e-6);
  }
}

TEST(Checkpoint, NestsAndTakesSeveralInputs) {
  Tensor a = numbers({5}, 4).requires_grad_(), b = numbers({5}, 5).requires_grad_();
  auto inner = [](const std::vector<Tensor>& in) { return (in[0] * in[1]).tanh(); };
  auto outer = [&](const std::vector<Tensor>& in) { return checkpoint(inner, {in[0].sin(), in[1]}) + in[0]; };
  checkpoint(outer, {a, b}).sum().backward();
  const auto ga = a.grad()->tolist(), gb = b.grad()->tolist();
  a.zero_grad();
  b.zero_grad();
  ((a.sin() * b).tanh() + a).sum().backward();
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(ga[i], a.grad()->tolist()[i], 1e-6);
    EXPECT_NEAR(gb[i], b.grad()->tolist()[i], 1e-6);
  }
}

TEST(Checkpoint, DropoutInsideDrawsTheSameMaskAgain) {
  TrainingScope training;
  Tensor x = Tensor::ones({64}).clone().realize().requires_grad_();
  const Tensor y = checkpoint([](const std::vector<Tensor>& in) { return (in[0] * 3).dropout(0.5); }, {x});
  y.sum().backward();
  Tensor grad = *x.grad(), value = y;
  Tensor* both[] = {&grad, &value};
  Tensor::realize_all(both);
  EXPECT_EQ(grad.tolist(), value.tolist()) << "the value is 6 where it is kept, and so is the gradient";
}

TEST(Checkpoint, TakesLessMemoryThanKeepingEverything) {
  auto peak = [&](bool with) {
    Net net(12, 64);
    Tensor x = numbers({512, 64}, 1);
    std::vector<Tensor> grads;
    Tensor y = x;
    for (std::size_t i = 0; i < 12; i += 3) {
      auto three = [&net, i](const std::vector<Tensor>& in) {
        return net.block(net.block(net.block(in[0], i), i + 1), i + 2);
      };
      y = with ? checkpoint(three, {y}) : three({y});
    }
    grads = y.square().sum().gradient(net.weights);
    engine::reset_counters();
    const std::size_t before = engine::counters().memory_used;
    Tensor::realize_all(grads);
    return engine::counters().memory_peak - before;
  };
  const std::size_t plain = peak(false), with = peak(true);
  EXPECT_LT(with, plain * 3 / 4) << "bytes at the peak: " << with << " of " << plain;
}

TEST(Checkpoint, RefusesFunctionsOfNothing) {
  EXPECT_EQ(message_of([] { checkpoint([](const std::vector<Tensor>&) { return Tensor(1.0); }, {}); }),
            "checkpoint: there is no input");
  EXPECT_EQ(
      message_of([] { checkpoint([](const std::vector<Tensor>&) { return Tensor(); }, {Tensor(1.0)}); }),
      "checkpoint: the function returned no tensor");
}

}  // namespace
}  // namespace lathe::testing
