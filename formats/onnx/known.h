// Elements of a small tensor that are known while the graph is built, because they come from shapes and
// constants. Shape arithmetic is done on them without kernels, and stays symbolic where sizes are.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "formats/onnx/call.h"
#include "lathe/onnx.h"

namespace lathe::onnx {

// Integers and bools are in `sizes`, floats in `floats`.
struct Known {
  DataType dtype = dtypes::int64;
  std::vector<std::int64_t> shape;
  std::vector<Size> sizes;
  std::vector<double> floats;

  bool is_float() const { return dtype.is_float(); }
  std::size_t count() const { return is_float() ? floats.size() : sizes.size(); }
};

inline constexpr std::size_t kMostKnown = 4096;

std::shared_ptr<const Known> make_known(DataType dtype, std::vector<std::int64_t> shape,
                                        std::vector<Size> sizes);
std::shared_ptr<const Known> make_known_floats(DataType dtype, std::vector<std::int64_t> shape,
                                               std::vector<double> values);
Tensor tensor_of(const Known& known);
// The value with its elements known, where it is a small tensor in memory.
Value with_known(const Tensor& tensor);

// What the operator gives for known inputs, or nothing where it needs a device.
std::optional<std::vector<Value>> evaluate_known(const Call& call);

}  // namespace lathe::onnx
