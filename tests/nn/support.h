// Plain arrays to compare layers and optimizers with, all in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lathe/nn.h"

namespace lathe::nn {

using Values = std::vector<double>;

inline Values random_values(std::size_t count, std::uint32_t seed, double low = -1, double high = 1) {
  std::mt19937 generator(seed);
  Values out(count);
  for (double& v : out) v = low + (high - low) * (generator() / 4294967296.0);
  return out;
}

inline Tensor tensor_of(const Values& values, const Shape& shape) { return Tensor(values, shape); }

// A parameter that holds these values.
inline Tensor parameter_of(const Values& values, const Shape& shape) {
  return parameter(tensor_of(values, shape));
}

inline void expect_near(const Tensor& got, const Values& wanted, double tolerance = 1e-5) {
  const Values values = got.tolist();
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(values[i], wanted[i], tolerance * (1 + std::abs(wanted[i]))) << "element " << i;
}

inline std::vector<std::string> names_of(const StateDict& dict) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : dict) names.push_back(name);
  return names;
}

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace lathe::nn
