// A tree of plain values and tensors, for checkpoints that are more than a flat list of tensors. Torch
// checkpoints are read into it, and lathe::save and lathe::load write and read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/tensor.h"

namespace lathe {

class Object {
 public:
  enum class Kind : std::uint8_t { None, Bool, Int, Float, String, Bytes, Tensor, List, Tuple, Dict };
  using Items = std::vector<Object>;
  using Entries = std::vector<std::pair<Object, Object>>;  // in file order
  struct Bytes {
    std::vector<std::byte> data;
  };
  struct Tuple {
    Items items;
  };

  Object() = default;
  Object(bool v) : value_(v) {}                            // NOLINT: literals are objects
  Object(int v) : value_(static_cast<std::int64_t>(v)) {}  // NOLINT
  Object(std::int64_t v) : value_(v) {}                    // NOLINT
  Object(double v) : value_(v) {}                          // NOLINT
  Object(std::string v) : value_(std::move(v)) {}          // NOLINT
  Object(const char* v) : value_(std::string(v)) {}        // NOLINT
  Object(Bytes v) : value_(std::move(v)) {}                // NOLINT
  Object(lathe::Tensor v) : value_(std::move(v)) {}        // NOLINT
  Object(Items v) : value_(std::move(v)) {}                // NOLINT
  Object(Tuple v) : value_(std::move(v)) {}                // NOLINT
  Object(Entries v) : value_(std::move(v)) {}              // NOLINT

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  std::string_view kind_name() const;  // "none", "dict", ...

  // The value; each throws UserError if the object has another kind. number() also accepts an integer.
  bool boolean() const;
  std::int64_t integer() const;
  double number() const;
  const std::string& string() const;
  const std::vector<std::byte>& bytes() const;
  const lathe::Tensor& tensor() const;
  const Items& items() const;  // of a list or a tuple
  const Entries& entries() const;

  // The entry of a dict with this key. find() returns null if there is none, operator[] throws UserError that
  // lists the keys.
  const Object* find(std::string_view key) const;
  const Object& operator[](std::string_view key) const;

  // Every tensor in the tree, named by the keys and positions on its path, joined by dots: a state dict.
  std::vector<std::pair<std::string, lathe::Tensor>> tensors() const;

 private:
  // In the order of Kind.
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Bytes, lathe::Tensor, Items, Tuple,
               Entries>
      value_;
};

// Writes a tree as a safetensors file, in which other programs find the tensors by name, and reads it back.
// load reads any other safetensors file as a dict. Tensors are read from disk when they are used.
void save(const Object& object, const std::filesystem::path& file);
Object load(const std::filesystem::path& file);

}  // namespace lathe
