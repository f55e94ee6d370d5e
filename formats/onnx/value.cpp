#include <fmt/format.h>
#include <fmt/ranges.h>

#include "formats/onnx/known.h"
#include "formats/onnx/load.h"
#include "lathe/onnx.h"

namespace lathe::onnx {
namespace {

constexpr const char* kKindNames[] = {"nothing", "a tensor", "a tensor of strings", "a sequence"};

[[noreturn]] void wrong_kind(Value::Kind is, Value::Kind wanted) {
  throw UserError("onnx",
                  fmt::format("the value is {}, {} is needed", kKindNames[static_cast<std::size_t>(is)],
                              kKindNames[static_cast<std::size_t>(wanted)]));
}

}  // namespace

Value::Value(Tensor tensor) {
  if (tensor.defined()) value_ = std::move(tensor);
}
Value::Value(Tensor tensor, std::shared_ptr<const Known> known)
    : value_(std::move(tensor)), known_(std::move(known)) {}

Value::Kind Value::kind() const { return known_ ? Kind::Tensor : static_cast<Kind>(value_.index()); }

const Tensor& Value::tensor() const {
  if (kind() != Kind::Tensor) wrong_kind(kind(), Kind::Tensor);
  if (!has_tensor()) value_ = tensor_of(*known_);
  return std::get<Tensor>(value_);
}

const Strings& Value::strings() const {
  if (kind() != Kind::Strings) wrong_kind(kind(), Kind::Strings);
  return std::get<Strings>(value_);
}

const Value::Items& Value::items() const {
  if (kind() != Kind::Sequence) wrong_kind(kind(), Kind::Sequence);
  return std::get<Items>(value_);
}

std::string Port::str() const {
  return has_shape ? fmt::format("{} {} ({})", name, type, fmt::join(dims, ", "))
                   : fmt::format("{} {}", name, type);
}

Value load_value(const state::Bytes& file, std::string_view type) {
  const formats::Source source(file, "onnx");
  if (type == "tensor") return load_tensor(read_tensor(source), source, default_device());
  if (type != "sequence" && type != "optional")
    throw UserError("onnx", fmt::format("there is no kind of value '{}'", type))
        .help("tensor, sequence or optional");
  const StoredValue stored = type == "sequence" ? read_sequence(source) : read_optional(source);
  if (stored.kind == TypeProto::Kind::None) return {};
  if (stored.kind == TypeProto::Kind::Tensor)
    return load_tensor(stored.tensors.back(), source, default_device());
  Value::Items items;
  for (const TensorProto& t : stored.tensors) items.push_back(load_tensor(t, source, default_device()));
  return items;
}

}  // namespace lathe::onnx
