#include "formats/onnx/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "formats/onnx/evaluator.h"
#include "formats/onnx/known.h"

namespace lathe::onnx {
namespace {

constexpr const char* kAttributeKinds[] = {
    "undefined", "a float", "an int", "a string",      "a tensor",       "a graph", "floats", "ints",
    "strings",   "tensors", "graphs", "sparse tensor", "sparse tensors", "a type",  "types"};

const Attribute& expect(const Call& call, const Attribute& a, Attribute::Kind kind) {
  if (a.kind == kind) return a;
  const auto name = [](Attribute::Kind k) {
    const auto i = static_cast<std::size_t>(k);
    return i < std::size(kAttributeKinds) ? kAttributeKinds[i] : "unknown";
  };
  call.fail(
      fmt::format("attribute {} is {}, {} is needed", formats::shown(a.name), name(a.kind), name(kind)));
}

}  // namespace

std::string Call::described() const {
  return fmt::format("node '{}' ({}{}{})", formats::shown(node.name), node.domain,
                     node.domain.empty() ? "" : ".", formats::shown(node.op));
}

void Call::fail(const std::string& why) const {
  throw UserError("onnx", fmt::format("{}: {}", described(), why));
}

void Call::not_supported(const std::string& why) const {
  throw NotSupported("onnx", fmt::format("{}: {}", described(), why));
}

bool Call::has(std::size_t i) const { return i < inputs.size() && inputs[i].kind() != Value::Kind::None; }

const Value& Call::value(std::size_t i) const {
  if (i >= inputs.size()) fail(fmt::format("input {} is missing", i));
  return inputs[i];
}

const Tensor& Call::x(std::size_t i) const {
  const Value& v = value(i);
  if (v.known() && !v.has_tensor()) v.stand_for(evaluator.tensor_of_known(*v.known()));
  if (v.kind() == Value::Kind::Tensor) return v.tensor();
  fail(fmt::format("input {} is {}, a tensor is needed", i,
                   v.kind() == Value::Kind::Strings    ? "a tensor of strings"
                   : v.kind() == Value::Kind::Sequence ? "a sequence"
                                                       : "absent"));
}

std::vector<Tensor> Call::tensors() const {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < inputs.size(); ++i) all.push_back(x(i));
  return all;
}

std::vector<Size> Call::sizes(std::size_t i) const {
  if (value(i).kind() != Value::Kind::Tensor) x(i);
  const std::shared_ptr<const Known> known = evaluator.known_of(value(i));
  if (known->is_float()) fail(fmt::format("input {} holds {}, integers are needed", i, known->dtype.name()));
  return known->sizes;
}

std::vector<std::int64_t> Call::ints(std::size_t i) const {
  std::vector<std::int64_t> out;
  for (const Size& size : sizes(i)) out.push_back(concrete(size, *this, fmt::format("input {}", i)));
  return out;
}

std::vector<double> Call::floats(std::size_t i) const {
  if (value(i).kind() != Value::Kind::Tensor) x(i);
  const std::shared_ptr<const Known> known = evaluator.known_of(value(i));
  if (known->is_float()) return known->floats;
  std::vector<double> out;
  for (const Size& size : known->sizes)
    out.push_back(static_cast<double>(concrete(size, *this, fmt::format("input {}", i))));
  return out;
}

std::int64_t Call::integer(std::size_t i) const {
  const std::vector<std::int64_t> all = ints(i);
  if (all.size() != 1) fail(fmt::format("input {} has {} elements, one is needed", i, all.size()));
  return all[0];
}

double Call::number(std::size_t i) const {
  const std::vector<double> all = floats(i);
  if (all.size() != 1) fail(fmt::format("input {} has {} elements, one is needed", i, all.size()));
  return all[0];
}

bool Call::truth(std::size_t i) const { return integer(i) != 0; }

const Attribute* Call::attribute(std::string_view name) const {
  const Attribute* a = node.attribute(name);
  return a == nullptr || a->refers_to.empty() ? a : evaluator.function_attribute(scope, a->refers_to);
}

std::int64_t Call::integer(std::string_view name, std::optional<std::int64_t> otherwise) const {
  if (const Attribute* a = attribute(name)) return expect(*this, *a, Attribute::Kind::Int).i;
  if (otherwise) return *otherwise;
  fail(fmt::format("attribute {} is missing", name));
}

double Call::number(std::string_view name, std::optional<double> otherwise) const {
  if (const Attribute* a = attribute(name))
    return a->kind == Attribute::Kind::Int ? static_cast<double>(a->i)
                                           : expect(*this, *a, Attribute::Kind::Float).f;
  if (otherwise) return *otherwise;
  fail(fmt::format("attribute {} is missing", name));
}

std::string Call::text(std::string_view name, std::optional<std::string_view> otherwise) const {
  if (const Attribute* a = attribute(name)) return expect(*this, *a, Attribute::Kind::String).s;
  if (otherwise) return std::string(*otherwise);
  fail(fmt::format("attribute {} is missing", name));
}

std::vector<std::int64_t> Call::ints(std::string_view name, std::vector<std::int64_t> otherwise) const {
  const Attribute* a = attribute(name);
  return a == nullptr ? otherwise : expect(*this, *a, Attribute::Kind::Ints).ints;
}

std::vector<double> Call::floats(std::string_view name, std::vector<double> otherwise) const {
  const Attribute* a = attribute(name);
  if (a == nullptr) return otherwise;
  expect(*this, *a, Attribute::Kind::Floats);
  return {a->floats.begin(), a->floats.end()};
}

std::vector<std::string> Call::texts(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a == nullptr ? std::vector<std::string>{} : expect(*this, *a, Attribute::Kind::Strings).strings;
}

const GraphProto& Call::graph(std::string_view name) const {
  const Attribute* a = attribute(name);
  if (a == nullptr || !a->graph) fail(fmt::format("the graph {} is missing", name));
  return *a->graph;
}

std::optional<std::vector<std::int64_t>> Call::ints_of(std::size_t i, std::string_view name) const {
  if (has(i)) return ints(i);
  if (has_attribute(name)) return ints(name);
  return std::nullopt;
}

std::int64_t Call::axis(std::int64_t given, std::int64_t rank) const {
  if (given < -rank || given >= rank)
    fail(fmt::format("axis {} is outside a tensor with {} axes", given, rank));
  return given < 0 ? given + rank : given;
}

std::vector<std::int64_t> Call::axes(std::vector<std::int64_t> given, std::int64_t rank) const {
  std::vector<bool> seen(static_cast<std::size_t>(rank));
  for (std::int64_t& a : given) {
    a = axis(a, rank);
    if (seen[static_cast<std::size_t>(a)]) fail(fmt::format("axis {} occurs twice in the list of axes", a));
    seen[static_cast<std::size_t>(a)] = true;
  }
  return given;
}

Tensor Call::constant(const std::vector<std::int64_t>& values, const Shape& shape) const {
  return evaluator.interned(values.data(), values.size() * sizeof(values[0]), shape, dtypes::int64);
}

Tensor Call::constant(const std::vector<double>& values, const Shape& shape, DataType dtype) const {
  const Tensor made =
      evaluator.interned(values.data(), values.size() * sizeof(double), shape, dtypes::float64);
  return dtype == dtypes::float64 ? made : made.cast(dtype);
}

const std::string& Call::device() const { return evaluator.device(); }

std::int64_t concrete(const Size& size, const Call& call, std::string_view what) {
  if (size.is_symbolic())
    call.not_supported(fmt::format("{} is the symbolic size {}, a number is needed", what, size.str()));
  return size.value();
}

std::vector<std::int64_t> concrete_shape(const Tensor& tensor, const Call& call) {
  std::vector<std::int64_t> out;
  for (const Size& size : tensor.shape()) out.push_back(concrete(size, call, "a size of an input"));
  return out;
}

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  std::int64_t all = 1;
  for (std::int64_t size : sizes) all *= size;
  return all;
}

}  // namespace lathe::onnx
