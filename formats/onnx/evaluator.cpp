#include "formats/onnx/evaluator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "formats/onnx/known.h"
#include "formats/onnx/load.h"

namespace lathe::onnx {
namespace {

// Functions and graphs nested deeper than this are refused: a function may call itself.
constexpr int kDeepest = 48;

std::int64_t version_of(const OpsetImports& opsets, const std::string& domain) {
  const auto found = opsets.find(domain);
  return found == opsets.end() ? 1 : found->second;
}

std::string shape_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::None: return "absent";
    case Value::Kind::Tensor: {
      if (value.known() && !value.has_tensor())
        return fmt::format("({}) {}", fmt::join(value.known()->shape, ", "), value.known()->dtype.name());
      return fmt::format("{} {}", to_string(value.tensor().shape()), value.tensor().dtype().name());
    }
    case Value::Kind::Strings: return fmt::format("({}) string", fmt::join(value.strings().shape, ", "));
    case Value::Kind::Sequence: return fmt::format("a sequence of {}", value.items().size());
  }
  return "";
}

std::string inputs_note(const Call& call) {
  std::string text = call.described() + " has inputs";
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    text += fmt::format("{} '{}' {}", i == 0 ? "" : ",", formats::shown(call.node.inputs[i]),
                        shape_of(call.inputs[i]));
  return text;
}

bool has_graph(const NodeProto& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const Attribute& a) { return a.graph != nullptr; });
}

}  // namespace

const Entry* Scope::find(const std::string& name) const {
  for (const Scope* at = this; at != nullptr; at = at->outer)
    if (const auto found = at->values.find(name); found != at->values.end()) return &found->second;
  return nullptr;
}

Evaluator::Evaluator(const ModelProto& model, formats::Source source, std::string device)
    : model_(model), source_(std::move(source)), device_(std::move(device)) {
  note_narrow(model.graph);
}

const FunctionProto* Evaluator::find_function(const NodeProto& node) const {
  for (const FunctionProto& f : model_.functions)
    if (f.name == node.op && f.domain == node.domain && f.overload == node.overload) return &f;
  return nullptr;
}

void Evaluator::collect_missing(const std::vector<NodeProto>& nodes, const OpsetImports& opsets,
                                std::set<std::string>& missing) const {
  for (const NodeProto& node : nodes) {
    if (find_function(node) == nullptr &&
        find_op(node.domain, node.op, version_of(opsets, node.domain)) == nullptr)
      missing.insert(formats::shown(node.domain.empty() ? node.op : node.domain + "." + node.op));
    for (const Attribute& a : node.attributes)
      if (a.graph) collect_missing(a.graph->nodes, opsets, missing);
  }
}

void Evaluator::check_ops() const {
  std::set<std::string> missing;
  collect_missing(model_.graph.nodes, model_.opsets, missing);
  for (const FunctionProto& f : model_.functions) collect_missing(f.nodes, f.opsets, missing);
  if (missing.empty()) return;
  constexpr std::size_t kMostNamed = 50;
  std::vector<std::string> named(missing.begin(), missing.end());
  const std::size_t all = named.size();
  if (all > kMostNamed) named.resize(kMostNamed);
  throw NotSupported("onnx", fmt::format("{}: {} operator{} not supported: {}{}", source_.name(), all,
                                         all == 1 ? " is" : "s are", fmt::join(named, ", "),
                                         all > kMostNamed ? ", ..." : ""))
      .help("docs/onnx.md lists what is");
}

Element Evaluator::narrow_element(const std::string& name) const {
  const auto found = narrow_.find(name);
  return found == narrow_.end() ? Element::Undefined : found->second;
}

// By what the graph declares, and from there along its nodes.
void Evaluator::note_narrow(const GraphProto& graph) {
  const auto note = [&](const std::string& name, Element element) {
    if (element == Element::Int4 || element == Element::Uint4) narrow_[name] = element;
  };
  for (const TensorProto& t : graph.initializers) note(t.name, t.element);
  for (const std::vector<ValueInfo>* infos : {&graph.inputs, &graph.outputs})
    for (const ValueInfo& info : *infos)
      if (info.type.kind == TypeProto::Kind::Tensor) note(info.name, info.type.element);
  for (const NodeProto& node : graph.nodes) note_narrow(node);
}

void Evaluator::note_narrow(const NodeProto& node) {
  for (const Attribute& a : node.attributes)
    if (a.graph) note_narrow(*a.graph);
  if (node.outputs.empty()) return;
  const auto input = [&](std::size_t i) {
    return i < node.inputs.size() ? narrow_element(node.inputs[i]) : Element::Undefined;
  };
  const auto named = [&](const char* name) {
    const Attribute* a = node.attribute(name);
    return a == nullptr ? Element::Undefined : static_cast<Element>(a->i);
  };
  constexpr std::string_view kPassOn[] = {"Identity",  "Reshape", "Transpose", "Squeeze",
                                          "Unsqueeze", "Flatten", "Slice",     "Gather",
                                          "Concat",    "Expand",  "Tile",      "Split"};
  Element element = Element::Undefined;
  if (node.op == "Cast")
    element = named("to");
  else if (node.op == "CastLike")
    element = input(1);
  else if (node.op == "QuantizeLinear")
    element = input(2) != Element::Undefined ? input(2) : named("output_dtype");
  else if (const Attribute* value = node.attribute("value");
           node.op == "Constant" && value != nullptr && value->tensor)
    element = value->tensor->element;
  else if (std::find(std::begin(kPassOn), std::end(kPassOn), node.op) != std::end(kPassOn))
    element = input(0);
  if (element == Element::Int4 || element == Element::Uint4)
    for (const std::string& output : node.outputs) narrow_[output] = element;
}

Value Evaluator::load(const TensorProto& tensor) {
  if (const auto found = loaded_.find(&tensor); found != loaded_.end()) return found->second;
  Value value = load_tensor(tensor, source_, device_);
  if (value.kind() == Value::Kind::Tensor && value.has_tensor())
    constants_.insert(value.tensor().impl().get());
  return loaded_[&tensor] = value;
}

Tensor Evaluator::interned(const void* data, std::size_t bytes, const Shape& shape, DataType dtype) {
  // What was made from elements that were read belongs to this call alone.
  if (depends_on_values_) return Tensor::from_bytes(data, bytes, shape, dtype, device_);
  std::string key = fmt::format("{} {} ", dtype.name(), to_string(shape));
  key.append(static_cast<const char*>(data), bytes);
  const auto found = interned_.find(key);
  if (found != interned_.end()) return found->second;
  Tensor made = Tensor::from_bytes(data, bytes, shape, dtype, device_);
  constants_.insert(made.impl().get());
  return interned_[key] = made;
}

Tensor Evaluator::tensor_of_known(const Known& known) {
  const Shape shape(known.shape.begin(), known.shape.end());
  if (known.count() == 0) return Tensor::empty(shape, {.dtype = known.dtype, .device = device_});
  if (known.is_float()) {
    if (known.count() == 1)
      return Tensor::full(shape, known.floats[0], {.dtype = known.dtype, .device = device_});
    return interned(known.floats.data(), known.floats.size() * sizeof(double), shape, dtypes::float64)
        .cast(known.dtype);
  }
  std::vector<std::int64_t> values;
  for (const Size& s : known.sizes) {
    if (s.is_symbolic()) return tensor_of(known);
    values.push_back(s.value());
  }
  if (values.size() == 1) return Tensor::full(shape, values[0], {.dtype = known.dtype, .device = device_});
  return interned(values.data(), values.size() * sizeof(values[0]), shape, dtypes::int64).cast(known.dtype);
}

std::shared_ptr<const Known> Evaluator::known_of(const Value& value) {
  if (value.known()) return value.known();
  const TensorImpl* impl = value.tensor().impl().get();
  if (const auto found = read_.find(impl); found != read_.end()) return found->second;
  const std::shared_ptr<const Known> known = with_known(value.tensor()).known();
  if (constants_.contains(impl))
    read_[impl] = known;
  else
    depends_on_values_ = true;
  return known;
}

const Attribute* Evaluator::function_attribute(const Scope& scope, const std::string& name) const {
  for (const Scope* at = &scope; at != nullptr; at = at->outer)
    if (at->attributes != nullptr) {
      const auto found = at->attributes->find(name);
      return found == at->attributes->end() ? nullptr : &found->second;
    }
  return nullptr;
}

void Evaluator::add_initializers(const GraphProto& graph, Scope& scope) {
  for (const TensorProto& t : graph.initializers) scope.values[t.name] = {load(t), true};
  for (const SparseTensorProto& t : graph.sparse_initializers) {
    const auto [found, is_new] = loaded_.try_emplace(&t.values);
    if (is_new) found->second = load_sparse(t, source_, device_);
    scope.values[t.values.name] = {found->second, true};
  }
}

Outputs Evaluator::collect(const std::vector<ValueInfo>& outputs, const Scope& scope) const {
  Outputs out;
  for (const ValueInfo& o : outputs) {
    const Entry* entry = scope.find(o.name);
    if (entry == nullptr)
      throw UserError(
          "onnx", fmt::format("{}: no node makes the output '{}'", source_.name(), formats::shown(o.name)));
    out.push_back(entry->value);
  }
  return out;
}

Outputs Evaluator::run(const Values& inputs) {
  depends_on_values_ = false;
  depth_ = 0;
  sums_.clear();
  std::erase_if(quantised_, [&](const auto& from) { return !constants_.contains(from.first); });
  Scope scope{.opsets = &model_.opsets};
  add_initializers(model_.graph, scope);
  for (const auto& [name, value] : inputs) scope.values[name] = {value, false};
  for (const NodeProto& node : model_.graph.nodes) run_node(node, scope);
  return collect(model_.graph.outputs, scope);
}

Outputs Evaluator::run_graph(const GraphProto& graph, const std::vector<Value>& inputs, const Scope& outer) {
  Scope scope{.outer = &outer, .opsets = outer.opsets};
  add_initializers(graph, scope);
  if (inputs.size() > graph.inputs.size())
    throw UserError("onnx", fmt::format("graph '{}' takes {} inputs, {} are given",
                                        formats::shown(graph.name), graph.inputs.size(), inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) scope.values[graph.inputs[i].name] = {inputs[i], false};
  for (const NodeProto& node : graph.nodes) run_node(node, scope);
  return collect(graph.outputs, scope);
}

Outputs Evaluator::call_function(const FunctionProto& function, const Call& call) {
  std::map<std::string, Attribute> attributes;
  for (const Attribute& a : function.defaults) attributes[a.name] = a;
  for (const Attribute& a : call.node.attributes)
    if (const Attribute* resolved = call.attribute(a.name)) attributes[a.name] = *resolved;
  OpsetImports opsets = function.opsets;
  if (opsets.empty()) opsets = *call.scope.opsets;
  Scope scope{.opsets = &opsets, .attributes = &attributes};
  for (std::size_t i = 0; i < function.inputs.size(); ++i)
    scope.values[function.inputs[i]] = {i < call.inputs.size() ? call.inputs[i] : Value(), false};
  for (const NodeProto& node : function.nodes) run_node(node, scope);
  Outputs out;
  for (const std::string& name : function.outputs) {
    const Entry* entry = scope.find(name);
    if (entry == nullptr)
      call.fail(fmt::format("no node of the function makes its output '{}'", formats::shown(name)));
    out.push_back(entry->value);
  }
  return out;
}

void Evaluator::bind_outputs(const NodeProto& node, const Outputs& outputs, bool constant, Scope& scope) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= outputs.size())
      throw UserError("onnx",
                      fmt::format("node '{}' ({}) has no output {}", formats::shown(node.name), node.op, i));
    scope.values[node.outputs[i]] = {outputs[i], constant};
  }
}

Outputs Evaluator::evaluate(const Call& call, const OpRow* row) {
  if (const FunctionProto* function = find_function(call.node)) return call_function(*function, call);
  if (auto known = evaluate_known(call)) return *known;
  if (row == nullptr) call.not_supported("there is no such operator");
  return row->function(call);
}

const Quantised* Evaluator::quantised(const Tensor& real) const {
  const auto found = quantised_.find(real.impl().get());
  return found == quantised_.end() ? nullptr : &found->second;
}

const ScaledSum* Evaluator::scaled_sum(const Tensor& real) const {
  const auto found = sums_.find(real.impl().get());
  return found == sums_.end() ? nullptr : &found->second;
}

Tensor Evaluator::kept(const Call& call, const Tensor& constant, const std::string& what,
                       const std::function<Tensor()>& make) {
  // Nodes of functions and inner graphs are evaluated for several sets of inputs.
  if (call.scope.outer != nullptr || call.scope.attributes != nullptr) return make();
  const auto [found, is_new] = kept_.try_emplace({constant.impl().get(), what + " " + call.node.outputs[0]});
  if (is_new) {
    found->second = make();
    constants_.insert(found->second.impl().get());
    new_constants_.push_back(found->second);
  }
  return found->second;
}

// Constants that a node reads are worth keeping from the first one on.
void Evaluator::settle(const std::vector<const Entry*>& entries) {
  for (const Entry* entry : entries) {
    if (!entry->constant || !entry->value.has_tensor()) continue;
    const Tensor& t = entry->value.tensor();
    if (unread_.contains(t.impl().get())) continue;
    if (settled_.insert(t.impl().get()).second && !t.is_realized()) new_constants_.push_back(t);
  }
}

void Evaluator::run_node(const NodeProto& node, Scope& scope) {
  if (depth_ >= kDeepest)
    throw UserError("onnx", fmt::format("graphs and functions are nested deeper than {}", kDeepest));
  const std::int64_t version = version_of(*scope.opsets, node.domain);
  const OpRow* row = find_op(node.domain, node.op, version);
  std::vector<Value> inputs;
  std::vector<const Entry*> entries;
  bool constant = scope.outer == nullptr && scope.attributes == nullptr && !has_graph(node) &&
                  find_function(node) == nullptr && (row == nullptr || row->trait != Trait::Random);
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      inputs.emplace_back();
      continue;
    }
    const Entry* entry = scope.find(name);
    if (entry == nullptr)
      throw UserError("onnx",
                      fmt::format("node '{}' ({}) reads '{}', which nothing before it makes",
                                  formats::shown(node.name), formats::shown(node.op), formats::shown(name)))
          .help("the nodes of an ONNX graph must be in execution order");
    constant &= entry->constant;
    inputs.push_back(entry->value);
    entries.push_back(entry);
  }
  if (constant)
    if (const auto found = folded_.find(&node); found != folded_.end())
      return bind_outputs(node, found->second, true, scope);
  const Call call(node, version, std::move(inputs), *this, scope);
  Outputs outputs;
  unread_.clear();
  ++depth_;
  try {
    outputs = evaluate(call, row);
  } catch (UserError& error) {
    --depth_;
    error.note(inputs_note(call));
    throw;
  } catch (...) {
    --depth_;
    throw;
  }
  --depth_;
  if (!constant) settle(entries);
  if (row != nullptr && row->trait == Trait::Random) note_random();
  if (constant) {
    for (const Value& v : outputs)
      if (v.has_tensor()) {
        constants_.insert(v.tensor().impl().get());
        if (row != nullptr && row->trait == Trait::Lazy) settled_.insert(v.tensor().impl().get());
      }
    folded_[&node] = outputs;
  }
  bind_outputs(node, outputs, constant, scope);
}

std::vector<Tensor> Evaluator::take_new_constants() { return std::exchange(new_constants_, {}); }

}  // namespace lathe::onnx
