// Convolutions and products of dequantised numbers, computed in integers. With x = (qx - zx) * sx and
// w = (qw - zw) * sw, whose scales do not change along the sum,
//
//   sum of x * w  ==  (sum of qx * (qw - zw)  -  zx * sum of (qw - zw)) * sx * sw
//
// The sums of integers are exact and are rounded once, so the result is at least as close to the real one as
// a sum of dequantised floats, and bytes are read in place of floats.
#pragma once

#include <functional>
#include <optional>

#include "formats/onnx/call.h"
#include "formats/onnx/evaluator.h"

namespace lathe::onnx {

// The sum of products of such integers in int32; `border` is the one that stands for a real 0 around x.
using IntegerSum = std::function<Tensor(const Tensor& x, const Tensor& weight, std::int64_t border)>;

// Where the weight's outputs are: the axis of its scales and zero points, the axes of a sum, and the axis of
// the result and its rank.
struct WeightAxes {
  std::int64_t output = 0;
  std::vector<std::int64_t> summed = {};
  std::int64_t result = 1, rank = 4;
};

// Inputs 0 and 1 of the node as x and weight, input 2 as the bias; nothing where they are no such numbers or
// their scales and zero points are not known.
std::optional<Tensor> quantised_sum(const Call& c, const WeightAxes& axes, const IntegerSum& sum);
// An input of a sum that is computed in floats: dequantised once, not for each time that it is read.
Tensor read_often(const Call& c, std::size_t input);

}  // namespace lathe::onnx
