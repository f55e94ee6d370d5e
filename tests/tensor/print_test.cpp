#include "lathe/print.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "lathe/context.h"
#include "lathe/lathe.h"

namespace lathe {
namespace {

std::string printed(const Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}

TEST(Print, ValuesShapeDtypeAndDeviceAreShown) {
  EXPECT_EQ(printed(Tensor::arange(3)), "Tensor([0, 1, 2], shape=(3,), dtype=int32, device=CPU)");
  EXPECT_EQ(printed(Tensor(std::vector<float>{0.5F, -1, 2.25F, 4}).reshape({2, 2})),
            "Tensor([[ 0.50, -1.00],\n        [ 2.25,  4.00]], shape=(2, 2), dtype=float32, device=CPU)");
  EXPECT_EQ(printed(Tensor(std::vector<bool>{true, false})),
            "Tensor([ true, false], shape=(2,), dtype=bool, device=CPU)");
  EXPECT_EQ(printed(Tensor(2.0)), "Tensor(2., shape=(), dtype=float32, device=CPU)");
}

TEST(Print, EmptyUndefinedNotFiniteAndLargeNumbersAreShown) {
  EXPECT_EQ(printed(Tensor::zeros({0, 3})), "Tensor([], shape=(0, 3), dtype=float32, device=CPU)");
  EXPECT_EQ(printed(Tensor()), "Tensor()");
  EXPECT_EQ(printed(Tensor(std::vector<double>{NAN, INFINITY, -INFINITY, 1})),
            "Tensor([ nan,  inf, -inf,   1.], shape=(4,), dtype=float32, device=CPU)");
  EXPECT_EQ(printed(Tensor(std::vector<double>{1e-7, 1e9})),
            "Tensor([1.0000e-07, 1.0000e+09], shape=(2,), dtype=float32, device=CPU)");
  EXPECT_EQ(printed(Tensor(std::vector<std::uint64_t>{18446744073709551615U})),
            "Tensor([18446744073709551615], shape=(1,), dtype=uint64, device=CPU)");
}

TEST(Print, ALargeTensorIsCutToItsEndsAndOnlyThoseAreComputed) {
  const std::string text = printed(Tensor::arange(2000).reshape({40, 50}));
  EXPECT_NE(text.find("[   0,    1,    2, ...,   47,   48,   49],"), std::string::npos) << text;
  EXPECT_NE(text.find("...,\n"), std::string::npos) << text;
  EXPECT_NE(text.find("[1950, 1951, 1952, ..., 1997, 1998, 1999]], shape=(40, 50)"), std::string::npos)
      << text;
  // 2^40 elements could not be computed.
  const std::string huge = printed(Tensor::ones({1 << 20, 1 << 20}) + 1);
  EXPECT_NE(huge.find("[2., 2., 2., ..., 2., 2., 2.]"), std::string::npos) << huge;
}

TEST(Print, WhatCannotBeKnownSaysWhy) {
  EXPECT_EQ(printed(Tensor::ones({2}, {.device = "NULL"}) + 1),
            "<Tensor shape=(2,), dtype=float32, device=NULL: this device computes nothing>");
}

TEST(Autocast, ProductsAreLoweredAndSumsAreNot) {
  const Tensor a = Tensor::ones({2, 3}), b = Tensor::ones({3, 4});
  {
    const AutocastScope autocast(dtypes::bfloat16);
    EXPECT_EQ(a.dot(b).dtype(), dtypes::bfloat16);
    EXPECT_EQ(a.dot(b).softmax(-1).dtype(), dtypes::float32);
    EXPECT_EQ((a + a).dtype(), dtypes::float32);
    EXPECT_EQ(a.cast(dtypes::float64).dot(b.cast(dtypes::float64)).dtype(), dtypes::float64);
    const AutocastScope off(std::nullopt);
    EXPECT_EQ(a.dot(b).dtype(), dtypes::float32);
  }
  EXPECT_EQ(a.dot(b).dtype(), dtypes::float32);
  EXPECT_THROW(AutocastScope(dtypes::int32), UserError);
}

TEST(GradMode, AScopeSwitchesGradientsOnInsideOfOneThatSwitchesThemOff) {
  Tensor w = Tensor(std::vector<float>{2}).requires_grad_();
  const NoGradScope off;
  EXPECT_FALSE(grad_enabled());
  const GradScope on(true);
  EXPECT_TRUE(grad_enabled());
  (w * w).sum().backward();
  EXPECT_EQ(w.grad()->item(), 4);
}

}  // namespace
}  // namespace lathe
