// One node being evaluated: its inputs, its attributes and the questions operators ask about them. Refusals
// name the node, and the evaluator adds the shapes of its inputs to whatever an operator throws.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/model.h"
#include "lathe/onnx.h"

namespace lathe::onnx {

class Evaluator;
struct Scope;

using Outputs = std::vector<Value>;

class Call {
 public:
  Call(const NodeProto& node_, std::int64_t version_, std::vector<Value> inputs_, Evaluator& evaluator_,
       Scope& scope_)
      : node(node_), version(version_), inputs(std::move(inputs_)), evaluator(evaluator_), scope(scope_) {}

  const NodeProto& node;
  const std::int64_t version;  // of the operator set the node's domain is imported with
  std::vector<Value> inputs;
  Evaluator& evaluator;
  Scope& scope;

  // ---- inputs
  bool has(std::size_t i) const;
  const Value& value(std::size_t i) const;
  const Tensor& x(std::size_t i) const;
  std::vector<Tensor> tensors() const;  // all inputs
  // Elements as numbers: known ones, or read from the device, which ends the graph there.
  std::vector<std::int64_t> ints(std::size_t i) const;
  std::vector<double> floats(std::size_t i) const;
  std::vector<Size> sizes(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;
  double number(std::size_t i) const;
  bool truth(std::size_t i) const;

  // ---- outputs
  bool wants(std::size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }

  // ---- attributes
  const Attribute* attribute(std::string_view name) const;
  bool has_attribute(std::string_view name) const { return attribute(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt) const;
  double number(std::string_view name, std::optional<double> otherwise = std::nullopt) const;
  std::string text(std::string_view name, std::optional<std::string_view> otherwise = std::nullopt) const;
  std::vector<std::int64_t> ints(std::string_view name, std::vector<std::int64_t> otherwise = {}) const;
  std::vector<double> floats(std::string_view name, std::vector<double> otherwise = {}) const;
  std::vector<std::string> texts(std::string_view name) const;
  const GraphProto& graph(std::string_view name) const;
  // What older versions have as an attribute and newer ones as input `i`; nothing where neither is given.
  std::optional<std::vector<std::int64_t>> ints_of(std::size_t i, std::string_view name) const;

  // ---- helpers
  // An axis of `rank` axes, counted from the start.
  std::int64_t axis(std::int64_t given, std::int64_t rank) const;
  std::vector<std::int64_t> axes(std::vector<std::int64_t> given, std::int64_t rank) const;
  // A tensor made on the host, kept so that each call of the model sees the same memory.
  Tensor constant(const std::vector<std::int64_t>& values, const Shape& shape) const;
  Tensor constant(const std::vector<double>& values, const Shape& shape, DataType dtype) const;
  const std::string& device() const;

  // Refuses: the node, and why.
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void not_supported(const std::string& why) const;
  std::string described() const;  // "node 'conv1' (Conv)"
};

// A concrete size; refuses a symbolic one.
std::int64_t concrete(const Size& size, const Call& call, std::string_view what);
std::vector<std::int64_t> concrete_shape(const Tensor& tensor, const Call& call);
std::int64_t product(const std::vector<std::int64_t>& sizes);

// Element types and dtypes.
std::optional<DataType> dtype_of(Element element);
DataType dtype_for(Element element, const Call& call);
std::string_view element_name(Element element);

}  // namespace lathe::onnx
