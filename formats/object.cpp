#include "lathe/object.h"

#include <fmt/format.h>

#include <array>

namespace lathe {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"none",  "bool",   "int",  "float", "string",
                                                     "bytes", "tensor", "list", "tuple", "dict"};

template <class T, class V>
const T& get(const V& value, std::string_view kind, std::string_view wanted) {
  if (const T* held = std::get_if<T>(&value)) return *held;
  throw UserError("object", fmt::format("a {} is where a {} is needed", kind, wanted));
}

std::string key_text(const Object& key) {
  if (key.is(Object::Kind::String)) return key.string();
  if (key.is(Object::Kind::Int)) return std::to_string(key.integer());
  if (key.is(Object::Kind::Bool)) return key.boolean() ? "true" : "false";
  return std::string(key.kind_name());
}

void collect(const Object& object, const std::string& name,
             std::vector<std::pair<std::string, Tensor>>& found) {
  const std::string prefix = name.empty() ? "" : name + ".";
  if (object.is(Object::Kind::Tensor)) {
    found.emplace_back(name, object.tensor());
  } else if (object.is(Object::Kind::List) || object.is(Object::Kind::Tuple)) {
    std::size_t i = 0;
    for (const Object& item : object.items()) collect(item, prefix + std::to_string(i++), found);
  } else if (object.is(Object::Kind::Dict)) {
    for (const auto& [key, value] : object.entries()) collect(value, prefix + key_text(key), found);
  }
}

}  // namespace

std::string_view Object::kind_name() const { return kNames[value_.index()]; }

bool Object::boolean() const { return get<bool>(value_, kind_name(), "bool"); }
std::int64_t Object::integer() const { return get<std::int64_t>(value_, kind_name(), "int"); }
double Object::number() const {
  return is(Kind::Int) ? static_cast<double>(integer()) : get<double>(value_, kind_name(), "float");
}
const std::string& Object::string() const { return get<std::string>(value_, kind_name(), "string"); }
const std::vector<std::byte>& Object::bytes() const { return get<Bytes>(value_, kind_name(), "bytes").data; }
const Tensor& Object::tensor() const { return get<lathe::Tensor>(value_, kind_name(), "tensor"); }
const Object::Items& Object::items() const {
  return is(Kind::Tuple) ? std::get<Tuple>(value_).items : get<Items>(value_, kind_name(), "list");
}
const Object::Entries& Object::entries() const { return get<Entries>(value_, kind_name(), "dict"); }

const Object* Object::find(std::string_view key) const {
  for (const auto& [own, value] : entries())
    if (own.is(Kind::String) && own.string() == key) return &value;
  return nullptr;
}

const Object& Object::operator[](std::string_view key) const {
  if (const Object* found = find(key)) return *found;
  constexpr std::size_t kShown = 8;
  std::string keys;
  for (std::size_t i = 0; i < entries().size() && i < kShown; ++i)
    keys += (i == 0 ? "" : ", ") + key_text(entries()[i].first);
  if (entries().size() > kShown) keys += fmt::format(" and {} more", entries().size() - kShown);
  throw UserError("object", fmt::format("the dict has no \"{}\"", key)).note("it has " + keys);
}

std::vector<std::pair<std::string, Tensor>> Object::tensors() const {
  std::vector<std::pair<std::string, lathe::Tensor>> found;
  collect(*this, "", found);
  return found;
}

}  // namespace lathe
