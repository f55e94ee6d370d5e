// What operators of several topics use.
#pragma once

#include <string_view>
#include <vector>

#include "formats/onnx/call.h"
#include "formats/onnx/evaluator.h"
#include "formats/onnx/known.h"
#include "formats/onnx/registry.h"

namespace lathe::onnx {

using Numbers = std::vector<std::int64_t>;

// The second operand of an elementwise operator, broadcast as the version of the operator says.
Tensor second_operand(const Call& c);
Outputs equal_strings(const Call& c);

// Elements of `x` along `axis` at these positions, which are inside it.
Tensor picked(const Call& c, const Tensor& x, std::int64_t axis, const Numbers& positions);
// One position of an axis, or a stretch of it.
Tensor sliced(const Tensor& x, std::int64_t axis, const Size& begin, const Size& end);
Tensor padded(const Tensor& x, std::int64_t axis, std::int64_t before, std::int64_t after, Number value = 0);
// The tensor as one of `rank` axes, with its own at `axis` and sizes of 1 elsewhere: a list per channel.
Tensor along(const Tensor& list, std::int64_t axis, std::int64_t rank);
// An index with its negative numbers counted from the end of an axis of `size`.
Tensor wrapped(const Tensor& index, const Size& size);
// Joined to a string of one element type by its name for errors.
Tensor cast_to(const Tensor& x, DataType dtype);

// The window of a convolution or pool: its attributes, one entry per spatial axis.
struct Window {
  Numbers kernel, strides, dilations, before, after;
};
// Reads strides, dilations, pads and auto_pad; `sizes` are those of the input.
Window window_of(const Call& c, const Numbers& sizes, const Numbers& kernel);
Numbers spatial_sizes(const Call& c, const Tensor& x);
// Integers are summed in int32. `border` is around the image where the node pads it.
Tensor convolution(const Call& c, const Tensor& x, const Tensor& weight, const Tensor* bias,
                   std::int64_t border = 0);
// Low/high pairs from the last axis to the first, as Lathe takes paddings.
Numbers padding_pairs(const Window& w);

// An activation by the name recurrent and fused operators use.
Tensor activation(const Call& c, std::string_view name, const Tensor& x, double alpha, double beta);

// Its parameters where a node gives none.
std::pair<double, double> activation_defaults(std::string_view name);

Tensor layer_norm(const Tensor& x, std::int64_t axis, double epsilon, const Tensor* scale, const Tensor* bias,
                  Tensor* mean, Tensor* inverse_deviation);
Tensor rms_norm(const Tensor& x, std::int64_t axis, double epsilon, const Tensor& scale);

// Quantised numbers: real = (q - zero) * scale, per tensor or per position of an axis.
Tensor dequantised(const Call& c, const Tensor& q, const Tensor& scale, const Value& zero, std::int64_t axis,
                   std::int64_t block = 0);
Tensor quantised(const Call& c, const Tensor& x, const Tensor& scale, const Value& zero, std::int64_t axis,
                 DataType to, std::int64_t block = 0);
Tensor quantised_product(const Call& c, const Tensor& a, const Tensor& b);

}  // namespace lathe::onnx
