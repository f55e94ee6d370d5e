// The one list of op cases. A row says how to build a value from inputs that a Maker supplies; the runner
// tries it over dtypes, shapes, ways of viewing memory and special values, on any device, for values and
// gradients.
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
  // The dtype and device under test, for rows that make a tensor from nothing.
  virtual TensorOptions options() const = 0;
  // The device alone: rows whose dtype is fixed.
  TensorOptions on_device(DataType dtype) const { return {dtype, options().device}; }
};

struct Case {
  std::string name;
  // dtypes it is tried on: f floats, i integers, b bool, and l: integers and bool, which the op lifts to
  // float, at one shape only
  std::string kinds;
  bool differentiable;  // gradients are tried on float dtypes
  // Builds the value; `shape` is one of the suite's shapes, or empty for rows that bring their own.
  std::function<Tensor(Maker& make, const Shape& shape)> build;
  enum class Shapes { Any, NotEmpty, Ranked, Own } shapes = Shapes::Any;
  bool random = false;  // draws random numbers, whose counter moves: not repeated for differences
  // What docs/numerics.md leaves open about special values.
  bool any_zero = false;    // the sign of a zero: of max and min over both, and of sums of negative zeros
  bool fused = false;       // x * y + z in one rounding does not overflow on the way
  bool normalized = false;  // the squares always have about the same sum, whose gradient is only rounding
};

const std::vector<Case>& cases();

}  // namespace lathe::test
