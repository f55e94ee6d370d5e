// What the tensor tests compare with: plain lists, and derivatives by differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "lathe/lathe.h"

namespace lathe::testing {

inline void expect_values(const Tensor& t, const std::vector<double>& expected, double tolerance = 0) {
  std::vector<double> got = t.tolist();
  ASSERT_EQ(got.size(), expected.size()) << t.str();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    } else if (tolerance == 0 || std::isinf(expected[i])) {
      EXPECT_EQ(got[i], expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
    }
  }
}

inline void expect_shape(const Tensor& t, const Shape& shape) {
  EXPECT_EQ(to_string(t.shape()), to_string(shape));
}

// The first line of the error `f` throws, without its prefix; "" where it throws none.
inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.op() + ": " + e.message();
  }
  return "";
}

// Compares gradient(f(x), x) with central differences, in double.
inline void expect_gradient(const std::function<Tensor(const Tensor&)>& f, const std::vector<double>& at,
                            const Shape& shape, double tolerance = 1e-5) {
  auto make = [&](const std::vector<double>& v) { return Tensor(v, shape, {.dtype = dtypes::float64}); };
  Tensor x = make(at);
  std::vector<double> got = f(x).sum().gradient({x})[0].tolist();
  ASSERT_EQ(got.size(), at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double step = 1e-5;
    std::vector<double> low = at, high = at;
    low[i] -= step;
    high[i] += step;
    double expected = (f(make(high)).sum().item() - f(make(low)).sum().item()) / (2 * step);
    EXPECT_NEAR(got[i], expected, tolerance * std::max(1.0, std::abs(expected)))
        << "element " << i << " at " << at[i];
  }
}

}  // namespace lathe::testing
