// Variables in shapes: what is computed follows the bound value, shapes stay symbolic.
#include "tensor/values.h"

namespace lathe {
namespace {

using testing::expect_values;
using testing::message_of;

TEST(Symbolic, SizesAreExpressions) {
  Variable n("n", 1, 10);
  Size s = n.bind(3) * 2 + 1;
  EXPECT_TRUE(s.is_symbolic());
  EXPECT_EQ(s.bound_value(), 7);
  EXPECT_EQ(n.size().max(), 10);
  EXPECT_EQ(message_of([&] { n.size().bound_value(); }), "size: variable n has no value");
  EXPECT_EQ(message_of([&] { n.bind(11); }), "bind: 11 is outside the range [1, 10] of variable n");
  EXPECT_EQ(message_of([&] { n.bind(3).value(); }), "size: n is symbolic where a plain number is needed");
  EXPECT_EQ(Size(7) / 2, 3);
  EXPECT_EQ(Size(-7) / 2, -4);
}

TEST(Symbolic, ASizeThatIsOneVariableOrANumberIsThat) {
  Variable n("n", 2, 7);
  const Size b = n.bind(6);
  EXPECT_EQ(b + 1 - 1, b);
  EXPECT_EQ((b * 2 + 1) / 2, b);
  EXPECT_EQ((b * b + b - 1) / b, b);
  EXPECT_EQ((b + b - 1) / b, Size(1));
  EXPECT_EQ(b + 3 - b, Size(3));
  // It holds for every value of the variable, or not at all.
  EXPECT_TRUE(((b * 2 - 5) / b).is_symbolic());
  EXPECT_EQ(((b * 2 - 5) / b).bound_value(), 1);
  EXPECT_EQ(((b + 1) / 2).bound_value(), 3);
}

TEST(Symbolic, ASliceFollowsTheBoundValue) {
  Variable n("n", 1, 6);
  Tensor x = Tensor::arange(6).cast(dtypes::float32).contiguous().realize();
  for (std::int64_t v : {1, 4, 6}) {
    Tensor part = x[Slice{0, n.bind(v)}];
    EXPECT_EQ(part.shape()[0].bound_value(), v);
    expect_values(part.sum(), {static_cast<double>(v * (v - 1)) / 2});
    EXPECT_EQ((part * 2).tolist().size(), static_cast<std::size_t>(v));
  }
}

// What is recorded for backward keeps its expression, with the values of its variables; memory is laid out
// for the greatest ones all the same.
TEST(Symbolic, ATrackedValueIsReadAsItWasStored) {
  Variable n("n", 2, 7);
  for (const Shape& shape : {Shape{4, 7}, Shape{7}}) {
    Tensor x = Tensor::arange(shape.size() == 1 ? 7 : 28).cast(dtypes::float32).reshape(shape).contiguous();
    x.requires_grad_();
    const std::vector<double> all = x.tolist();
    for (std::int64_t v : {2, 3, 5}) {
      Tensor part = (shape.size() == 1 ? x.getitem({Slice{n.bind(v), {}}})
                                       : x.getitem({Slice{}, Slice{n.bind(v), {}}})) *
                    2;
      std::vector<double> want;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (static_cast<std::int64_t>(i % 7) >= v) want.push_back(2 * all[i]);
      expect_values(part, want);
      for (double& w : want) ++w;
      expect_values(part + 1, want);
    }
  }
}

TEST(Symbolic, AViewWithOtherBitsIsRead) {
  Variable n("n", 2, 7);
  Tensor x = Tensor({1, -1}, {.dtype = dtypes::int16}).contiguous().realize();
  Tensor rows = x.bitcast(dtypes::uint16).unsqueeze(0).expand({n.bind(3), 2});
  expect_values(rows, {1, 65535, 1, 65535, 1, 65535});
}

// The size is a sum of two variables, which has one form wherever the range over it is used.
TEST(Symbolic, ASliceBetweenTwoVariablesFollowsBoth) {
  Variable begin("begin", 0, 4), end("end", 5, 10);
  std::vector<double> values(100);
  for (std::size_t i = 0; i < 100; ++i) values[i] = static_cast<double>(i % 7);
  Tensor x = Tensor(values, {10, 10}).realize();
  for (auto [b, e] : {std::pair<std::int64_t, std::int64_t>{2, 7}, {0, 10}, {4, 5}}) {
    Tensor rows = x[Slice{begin.bind(b), end.bind(e)}];
    std::vector<double> sums, doubled;
    double products = 0;
    for (std::int64_t r = b; r < e; ++r) {
      sums.push_back(0);
      for (std::int64_t c = 0; c < 10; ++c) {
        sums.back() += values[static_cast<std::size_t>(r * 10 + c)];
        doubled.push_back(2 * values[static_cast<std::size_t>(r * 10 + c)]);
        for (std::int64_t k = 0; k < 10; ++k)
          products +=
              values[static_cast<std::size_t>(r * 10 + k)] * values[static_cast<std::size_t>(k * 10 + c)];
      }
    }
    expect_values(rows.sum({1}), sums);
    expect_values((rows * 2).contiguous(), doubled);
    expect_values(rows.matmul(x).sum(), {products});
    expect_values(rows.softmax(0).sum({0}), std::vector<double>(10, 1), 1e-5);
  }
}

// Its size is plain, so that only where it begins knows the variable.
TEST(Symbolic, APartThatBeginsAtAVariableIsReadWhenItsWholeIsGone) {
  Variable m("m", 1, 2);
  for (std::int64_t v : {1, 2}) {
    const Size begin = m.bind(v);
    Tensor ones = Tensor::full({7}, 1.0).contiguous().shrink({{begin, begin + 2}});
    expect_values(ones.realize(), {1, 1});
    Tensor counted = Tensor::arange(7).cast(dtypes::float32).clone().shrink({{begin, begin + 2}});
    expect_values(counted.realize(), {static_cast<double>(v), static_cast<double>(v + 1)});
  }
}

TEST(Symbolic, ArithmeticWithAVariableIsATensor) {
  Variable n("n", 1, 6);
  expect_values(Tensor({1, 2}).mul(n.bind(5)), {5, 10});
}

TEST(Symbolic, APositionCanBeWritten) {
  Variable at("at", 0, 3);
  Tensor cache = Tensor::zeros({4, 2}).contiguous().realize();
  for (std::int64_t v : {0, 2}) {
    Size i = at.bind(v);
    cache.shrink({{i, i + 1}, {0, 2}}).assign(Tensor({{1.0, 2.0}}));
    cache.realize();
  }
  expect_values(cache, {1, 2, 0, 0, 1, 2, 0, 0});
}

// A cache that is filled up to n and read at its full, constant size.
TEST(Symbolic, APadBackToAConstantSizeIsStored) {
  Variable n("n", 1, 10);
  Tensor x = Tensor::arange(30).cast(dtypes::float32).reshape({3, 10}).contiguous().realize();
  for (std::int64_t v : {1, 4, 10}) {
    Size bound = n.bind(v);
    Tensor part = x.shrink({{0, 3}, {0, bound}}) + 1;
    std::vector<double> want(30);
    for (std::int64_t i = 0; i < 30; ++i)
      want[static_cast<std::size_t>(i)] = i % 10 < v ? static_cast<double>(i + 1) : 0;
    Tensor padded = part.pad({{0, 0}, {0, 10 - bound}}).contiguous().realize();
    expect_values(padded, want);
    expect_values(part.contiguous().pad({{0, 0}, {0, 10 - bound}}) * 2 + padded, [&] {
      std::vector<double> out = want;
      for (double& w : out) w *= 3;
      return out;
    }());
  }
}

}  // namespace
}  // namespace lathe
