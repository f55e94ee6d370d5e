// Evaluates the nodes of a model in order. Tensors are lazy, so this builds a graph; only operators whose
// result has a shape that depends on values read anything. Nodes whose inputs are constants are evaluated
// once per model.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "formats/onnx/call.h"
#include "formats/onnx/registry.h"

namespace lathe::onnx {

struct Entry {
  Value value;
  bool constant = false;
};

// The values of a graph by name; names that are not here are looked up in the graph around it.
struct Scope {
  const Scope* outer = nullptr;
  const OpsetImports* opsets = nullptr;
  const std::map<std::string, Attribute>* attributes = nullptr;  // of the function around the nodes
  std::unordered_map<std::string, Entry> values = {};

  const Entry* find(const std::string& name) const;
};

// Where a tensor of numbers came from: (stored - zero) * scale.
struct Quantised {
  Tensor real;  // kept, so that its memory is not another tensor's
  Tensor stored, scale;
  Value zero;
  std::int64_t axis = 1, block = 0;
  bool same_scale = false;  // in every call
};

// Where a tensor of numbers came from: integers * scale + bias, all but the integers constants; then perhaps
// not below 0.
struct ScaledSum {
  Tensor real;    // kept, as above
  Tensor weight;  // a constant that belongs to this sum alone
  Tensor integers, scale, bias;
  bool positive = false;
};

class Evaluator {
 public:
  Evaluator(const ModelProto& model, formats::Source source, std::string device);

  // ---- of a whole model
  // Throws NotSupported that names every operator that is missing.
  void check_ops() const;
  Outputs run(const Values& inputs);
  const std::string& device() const { return device_; }
  // Whether the last run read elements that depend on its inputs, or drew random numbers: no capture of it is
  // one of other inputs.
  bool depends_on_values() const { return depends_on_values_; }
  // Constants that the last run met for the first time and that are worth keeping in memory.
  std::vector<Tensor> take_new_constants();

  // ---- for operators
  Outputs run_graph(const GraphProto& graph, const std::vector<Value>& inputs, const Scope& outer);
  const Attribute* function_attribute(const Scope& scope, const std::string& name) const;
  std::shared_ptr<const Known> known_of(const Value& value);
  Value load(const TensorProto& tensor);
  Tensor interned(const void* data, std::size_t bytes, const Shape& shape, DataType dtype);
  Tensor tensor_of_known(const Known& known);
  void note_random() { depends_on_values_ = true; }
  // What a dequantised tensor was made of, or null.
  const Quantised* quantised(const Tensor& real) const;
  void note_quantised(Quantised from) { quantised_[from.real.impl().get()] = std::move(from); }
  const ScaledSum* scaled_sum(const Tensor& real) const;
  void note_scaled_sum(ScaledSum from) { sums_[from.real.impl().get()] = std::move(from); }
  bool is_constant(const Tensor& t) const { return constants_.contains(t.impl().get()); }
  bool is_constant(const Value& v) const { return v.known() != nullptr || is_constant(v.tensor()); }
  // The node reads something else in place of this input.
  void note_unread(const Tensor& input) { unread_.insert(input.impl().get()); }
  // What a node of the model makes of a constant: kept in memory from the first run on.
  Tensor kept(const Call& call, const Tensor& constant, const std::string& what,
              const std::function<Tensor()>& make);
  // What the model calls the 4-bit integers of this name, whose tensor is of 8 bits; Undefined for all else.
  Element narrow_element(const std::string& name) const;

 private:
  void note_narrow(const GraphProto& graph);
  void note_narrow(const NodeProto& node);
  void run_node(const NodeProto& node, Scope& scope);
  void settle(const std::vector<const Entry*>& entries);
  Outputs evaluate(const Call& call, const OpRow* row);
  Outputs call_function(const FunctionProto& function, const Call& call);
  const FunctionProto* find_function(const NodeProto& node) const;
  void add_initializers(const GraphProto& graph, Scope& scope);
  void bind_outputs(const NodeProto& node, const Outputs& outputs, bool constant, Scope& scope);
  Outputs collect(const std::vector<ValueInfo>& outputs, const Scope& scope) const;
  void collect_missing(const std::vector<NodeProto>& nodes, const OpsetImports& opsets,
                       std::set<std::string>& missing) const;

  const ModelProto& model_;
  formats::Source source_;
  std::string device_;
  bool depends_on_values_ = false;
  int depth_ = 0;
  std::map<const TensorProto*, Value> loaded_;
  std::map<const NodeProto*, Outputs> folded_;  // results of nodes whose inputs are constants
  std::set<const TensorImpl*> constants_,
      settled_;  // tensors that are constants, and those already handed out
  std::vector<Tensor> new_constants_;
  std::map<const TensorImpl*, Quantised> quantised_;
  std::map<const TensorImpl*, ScaledSum> sums_;
  std::map<std::pair<const TensorImpl*, std::string>, Tensor> kept_;
  std::set<const TensorImpl*> unread_;                              // by the node at work
  std::map<const TensorImpl*, std::shared_ptr<const Known>> read_;  // elements of constants
  std::map<std::string, Tensor> interned_;
  std::map<std::string, Element> narrow_;
};

}  // namespace lathe::onnx
