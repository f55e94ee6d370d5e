// The one list of op cases. A row says how to build a value from inputs that a Maker supplies; the runner
// tries it over dtypes, shapes and ways of viewing memory, on any device, for values and gradients.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lathe/lathe.h"

namespace lathe::test {

// Supplies inputs of the dtype and view under test, with values from [low, high], the same ones every time.
class Maker {
 public:
  virtual ~Maker() = default;
  virtual Tensor operator()(const Shape& shape, double low = -2, double high = 2) = 0;
  // Integers in [low, high), of dtype int32, not differentiated.
  virtual Tensor index(const Shape& shape, std::int64_t low, std::int64_t high) = 0;
};

struct Case {
  std::string name;
  std::string kinds;    // dtypes it is tried on: any of f floats, i integers, b bool
  bool differentiable;  // gradients are tried on float dtypes
  // Builds the value; `shape` is one of the shapes below, or empty for rows that bring their own.
  std::function<Tensor(Maker& make, const Shape& shape)> build;
  enum class Shapes { Any, NotEmpty, Ranked, Own } shapes = Shapes::Any;
};

const std::vector<Case>& cases();

}  // namespace lathe::test
