#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "formats/onnx/evaluator.h"
#include "formats/onnx/known.h"
#include "formats/onnx/load.h"
#include "lathe/jit.h"
#include "lathe/onnx.h"

namespace lathe::onnx {
namespace {

std::string type_text(const TypeProto& type) {
  switch (type.kind) {
    case TypeProto::Kind::None: return "of unknown type";
    case TypeProto::Kind::Tensor: return std::string(element_name(type.element));
    case TypeProto::Kind::SparseTensor: return fmt::format("sparse {}", element_name(type.element));
    case TypeProto::Kind::Sequence: return "sequence of " + type_text(*type.inner);
    case TypeProto::Kind::Optional: return "optional " + type_text(*type.inner);
    case TypeProto::Kind::Map: return "map";
  }
  return "";
}

Port port_of(const ValueInfo& info) {
  Port port{info.name, type_text(info.type), {}, info.type.has_shape};
  for (const Dimension& d : info.type.shape)
    port.dims.push_back(d.value >= 0 ? std::to_string(d.value) : d.name.empty() ? "?" : d.name);
  return port;
}

void count_ops(const std::vector<NodeProto>& nodes, Summary& to) {
  for (const NodeProto& node : nodes) {
    ++to.nodes;
    ++to.ops[node.domain.empty() ? node.op : node.domain + "." + node.op];
    for (const Attribute& a : node.attributes)
      if (a.graph) count_ops(a.graph->nodes, to);
  }
}

Summary summary_of(const ModelProto& model, const formats::Source& source) {
  Summary s;
  s.producer = model.producer + (model.producer_version.empty() ? "" : " " + model.producer_version);
  s.ir_version = model.ir_version;
  s.opsets = model.opsets;
  for (const ValueInfo& in : model.graph.inputs) {
    const auto has_value = [&](const TensorProto& t) { return t.name == in.name; };
    if (std::none_of(model.graph.initializers.begin(), model.graph.initializers.end(), has_value))
      s.inputs.push_back(port_of(in));
  }
  for (const ValueInfo& out : model.graph.outputs) s.outputs.push_back(port_of(out));
  count_ops(model.graph.nodes, s);
  for (const FunctionProto& f : model.functions) count_ops(f.nodes, s);
  for (const TensorProto& t : model.graph.initializers) {
    const std::int64_t count = element_count(t, source);
    const auto dtype = dtype_of(t.element);
    s.parameters += count;
    s.parameter_bytes += count * (dtype ? dtype->itemsize() : 0);
  }
  return s;
}

// What a call is told apart by: names, dtypes and shapes. Nothing where it has more than tensors.
std::optional<std::string> signature_of(const Values& inputs) {
  std::string text;
  for (const auto& [name, value] : inputs) {
    if (value.kind() != Value::Kind::Tensor) return std::nullopt;
    const Tensor& t = value.tensor();
    text += fmt::format("{} {} {} {};", name, t.dtype().name(), to_string(t.shape()), t.device());
  }
  return text;
}

constexpr std::size_t kMostCaptures = 32;

}  // namespace

struct Runner::Impl {
  ModelProto model;
  Summary summary;
  Options options;
  std::unique_ptr<Evaluator> evaluator;
  struct Seen {
    // Its kernels depend on the values of inputs, or it gives more than tensors: never captured.
    bool by_values = false;
    std::optional<Jit> jit;
  };
  std::map<std::string, Seen> seen;
  bool replayed = false;
  std::mutex mutex;  // calls from several threads follow one another

  bool symbols_refused = false;  // an operator needs numbers where sizes would be symbolic

  void check_inputs(const Values& inputs) const;
  Values placed(Values inputs) const;
  Outputs evaluated(const Values& inputs);
  Values named(const Outputs& outputs) const;
  Values plain(const Values& inputs, Seen* seen_here);
  Values captured(const Values& inputs, Seen& seen_here);

  std::optional<std::map<std::string, std::int64_t>> named_sizes(const Values& inputs) const;
  Values widened(const Values& inputs) const;
  std::optional<Values> symbolic(const Values& inputs);
};

namespace {

const ValueInfo* find_input(const ModelProto& model, const std::string& name) {
  for (const ValueInfo& in : model.graph.inputs)
    if (in.name == name) return &in;
  return nullptr;
}

void check_tensor(const ValueInfo& info, const Tensor& t) {
  const std::string what = fmt::format("input '{}'", info.name);
  if (info.type.kind != TypeProto::Kind::Tensor) return;
  const auto dtype = dtype_of(info.type.element);
  if (dtype && *dtype != t.dtype())
    throw UserError("onnx",
                    fmt::format("{} is {}, the model takes {}", what, t.dtype().name(), dtype->name()))
        .help(fmt::format("cast it to {}", dtype->name()));
  if (!info.type.has_shape) return;
  bool fits = info.type.shape.size() == static_cast<std::size_t>(t.ndim());
  for (std::size_t i = 0; fits && i < info.type.shape.size(); ++i)
    fits = info.type.shape[i].value < 0 || t.size(static_cast<std::int64_t>(i)) == info.type.shape[i].value;
  if (!fits)
    throw UserError("onnx", fmt::format("{} has shape {}, the model takes ({})", what, to_string(t.shape()),
                                        fmt::join(port_of(info).dims, ", ")));
}

}  // namespace

void Runner::Impl::check_inputs(const Values& inputs) const {
  for (const auto& [name, value] : inputs) {
    const ValueInfo* info = find_input(model, name);
    if (info == nullptr) {
      std::vector<std::string> names;
      for (const Port& p : summary.inputs) names.push_back(p.name);
      throw UserError("onnx", fmt::format("the model has no input '{}'", formats::shown(name)))
          .help(fmt::format("its inputs are {}", fmt::join(names, ", ")));
    }
    if (value.kind() == Value::Kind::Tensor) check_tensor(*info, value.tensor());
    const bool tensors = info->type.kind == TypeProto::Kind::Tensor;
    const bool strings = tensors && info->type.element == Element::String;
    if (tensors && (value.kind() == Value::Kind::Strings) != strings && value.kind() != Value::Kind::None)
      throw UserError("onnx", fmt::format("input '{}' takes {}", name, port_of(*info).str()));
  }
  for (const Port& port : summary.inputs)
    if (!inputs.contains(port.name) && port.type.rfind("optional", 0) != 0)
      throw UserError("onnx", fmt::format("input '{}' is missing", port.name))
          .help(fmt::format("it takes {}", port.str()));
}

// On the model's device, and as tensors whose elements nobody knows: another call has others.
Values Runner::Impl::placed(Values inputs) const {
  for (auto& [name, value] : inputs)
    if (value.kind() == Value::Kind::Tensor) value = value.tensor().to(options.device);
  return inputs;
}

Outputs Runner::Impl::evaluated(const Values& inputs) {
  const NoGradScope no_gradients;
  const TrainingScope inference(false);
  Outputs outputs = evaluator->run(inputs);
  // Constants that were met for the first time are computed once and then read: the graph is built again over
  // them.
  std::vector<Tensor> constants = evaluator->take_new_constants();
  if (constants.empty()) return outputs;
  Tensor::realize_all(constants);
  return evaluator->run(inputs);
}

Values Runner::Impl::named(const Outputs& outputs) const {
  Values out;
  for (std::size_t i = 0; i < outputs.size(); ++i) out[model.graph.outputs[i].name] = outputs[i];
  return out;
}

namespace {

void collect_tensors(const Outputs& values, std::vector<Tensor>& to) {
  for (const Value& v : values) {
    if (v.kind() == Value::Kind::Tensor) to.push_back(v.tensor());
    if (v.kind() == Value::Kind::Sequence) collect_tensors(v.items(), to);
  }
}

}  // namespace

Values Runner::Impl::plain(const Values& inputs, Seen* seen_here) {
  const Outputs outputs = evaluated(inputs);
  const auto is_tensor = [](const Value& v) { return v.kind() == Value::Kind::Tensor; };
  if (seen_here != nullptr)
    seen_here->by_values =
        evaluator->depends_on_values() || !std::all_of(outputs.begin(), outputs.end(), is_tensor);
  std::vector<Tensor> tensors;
  collect_tensors(outputs, tensors);
  Tensor::realize_all(tensors);
  return named(outputs);
}

Values Runner::Impl::captured(const Values& inputs, Seen& seen_here) {
  std::vector<Tensor> arguments;
  std::vector<std::string> names;
  for (const auto& [name, value] : inputs) {
    arguments.push_back(value.tensor());
    names.push_back(name);
  }
  if (!seen_here.jit)
    seen_here.jit.emplace(Jit::Function([this, names](const std::vector<Tensor>& given) {
      Values again;
      for (std::size_t i = 0; i < names.size(); ++i) again[names[i]] = given[i];
      std::vector<Tensor> tensors;
      collect_tensors(evaluated(again), tensors);
      Tensor::realize_all(tensors);
      return tensors;
    }));
  const bool was_captured = seen_here.jit->captured();
  std::vector<Tensor> results = (*seen_here.jit)(arguments);
  replayed = was_captured;
  Outputs outputs;
  for (Tensor& t : results) outputs.emplace_back(std::move(t));
  return named(outputs);
}

// ---- named dimensions that stay symbolic
// Inputs are stored at the greatest size, and the graph sees the part that is filled: kernels are the same
// for every size. The graph is built in every call.

// The size of each symbolic dimension in this call; nothing where one is outside its range.
std::optional<std::map<std::string, std::int64_t>> Runner::Impl::named_sizes(const Values& inputs) const {
  std::map<std::string, std::int64_t> sizes;
  for (const Port& port : summary.inputs) {
    const auto given = inputs.find(port.name);
    if (given == inputs.end() || given->second.kind() != Value::Kind::Tensor) return std::nullopt;
    for (std::size_t i = 0; i < port.dims.size(); ++i) {
      const auto most = options.symbolic.find(port.dims[i]);
      if (most == options.symbolic.end()) continue;
      const std::int64_t size = given->second.tensor().size(static_cast<std::int64_t>(i)).value();
      if (size < 1 || size > most->second) return std::nullopt;
      const auto [found, is_new] = sizes.try_emplace(port.dims[i], size);
      if (found->second != size)
        throw UserError("onnx", fmt::format("dimension {} is {} and {}", port.dims[i], found->second, size));
    }
  }
  return sizes;
}

Values Runner::Impl::widened(const Values& inputs) const {
  Values wide = inputs;
  for (const Port& port : summary.inputs) {
    const Tensor t = wide.at(port.name).tensor();
    Shape shape = t.shape();
    for (std::size_t i = 0; i < port.dims.size(); ++i)
      if (const auto most = options.symbolic.find(port.dims[i]); most != options.symbolic.end())
        shape[i] = most->second;
    wide[port.name] = t.pad_to(shape).contiguous().realize();
  }
  return wide;
}

std::optional<Values> Runner::Impl::symbolic(const Values& inputs) {
  const auto sizes = named_sizes(inputs);
  if (!sizes || sizes->empty()) return std::nullopt;
  Values given = widened(inputs);
  for (const Port& port : summary.inputs) {
    Shape shape = given.at(port.name).tensor().shape();
    for (std::size_t i = 0; i < port.dims.size(); ++i)
      if (const auto size = sizes->find(port.dims[i]); size != sizes->end())
        shape[i] = Variable(size->first, 1, options.symbolic.at(size->first)).bind(size->second);
    given[port.name] = given.at(port.name).tensor().shrink_to(shape);
  }
  std::vector<Tensor> results;
  std::vector<Shape> shapes;
  for (const Value& v : evaluated(given)) {
    if (v.kind() != Value::Kind::Tensor) return std::nullopt;
    Shape most, now;
    for (const Size& size : v.tensor().shape()) {
      most.emplace_back(size.max());
      now.emplace_back(size.bound_value());
    }
    results.push_back(v.tensor().pad_to(most).contiguous());
    shapes.push_back(now);
  }
  Tensor::realize_all(results);
  Outputs outputs;
  for (std::size_t i = 0; i < results.size(); ++i) outputs.emplace_back(results[i].shrink_to(shapes[i]));
  return named(outputs);
}

Runner::Runner(const state::Bytes& file, const Options& options) : impl_(std::make_unique<Impl>()) {
  const formats::Source source(file, "onnx");
  impl_->options = options;
  if (impl_->options.device.empty()) impl_->options.device = default_device();
  impl_->model = read_model(source);
  impl_->summary = summary_of(impl_->model, source);
  impl_->evaluator = std::make_unique<Evaluator>(impl_->model, source, impl_->options.device);
  impl_->evaluator->check_ops();
}

Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;
Runner::~Runner() = default;

const Summary& Runner::summary() const { return impl_->summary; }
bool Runner::replayed() const { return impl_->replayed; }

Values Runner::operator()(const Values& given) {
  const std::lock_guard lock(impl_->mutex);
  impl_->replayed = false;
  impl_->check_inputs(given);
  const Values inputs = impl_->placed(given);
  if (!impl_->options.symbolic.empty() && !impl_->symbols_refused) {
    try {
      if (auto outputs = impl_->symbolic(inputs)) return *outputs;
    } catch (const NotSupported&) {  // some operator needs numbers: sizes are taken as they are fed
      impl_->symbols_refused = true;
    }
  }
  const auto signature = signature_of(inputs);
  if (!signature || !impl_->options.capture || inputs.empty()) return impl_->plain(inputs, nullptr);
  if (impl_->seen.size() >= kMostCaptures && !impl_->seen.contains(*signature)) impl_->seen.clear();
  const auto [found, is_new] = impl_->seen.try_emplace(*signature);
  Impl::Seen& seen_here = found->second;
  if (is_new || seen_here.by_values) return impl_->plain(inputs, &seen_here);
  try {
    return impl_->captured(inputs, seen_here);
  } catch (const JitError&) {  // this model cannot be captured, which costs time and changes no result
    seen_here.by_values = true;
    seen_here.jit.reset();
    return impl_->plain(inputs, nullptr);
  }
}

std::vector<ScheduledKernel> Runner::schedule(const Values& given) {
  const std::lock_guard lock(impl_->mutex);
  impl_->check_inputs(given);
  const Values inputs = impl_->placed(given);
  std::vector<Tensor> tensors;
  collect_tensors(impl_->evaluated(inputs), tensors);
  return Tensor::schedule_all(tensors);
}

}  // namespace lathe::onnx
