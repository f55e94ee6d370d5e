// The values of a template: those of JSON, Python's tuples, what `undefined` names, namespaces (the one thing
// a template can change) and functions. They print, compare and add as in Python, because templates are
// written against it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/error.h"

namespace lathe::llm::jinja {

class Value;
struct Arguments;

using Items = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;  // in the order they were written

struct Undefined {
  std::string name;  // what was not there, for the error of whoever uses it
};
struct None {};
struct List {
  Items items;
  bool tuple = false;  // prints with round brackets
};
struct Dict {
  Entries entries;
};
struct Namespace {
  Entries entries;
};
struct Function {
  std::string name;
  std::function<Value(const Arguments&)> run;
};

// A refusal without its line, which the renderer adds.
struct TemplateError : ErrorKind<TemplateError, UserError> {
  explicit TemplateError(std::string_view message) : ErrorKind("chat template", message) {}
};

class Value {
 public:
  enum class Kind : std::uint8_t {
    Undefined,
    None,
    Bool,
    Int,
    Float,
    String,
    List,
    Dict,
    Namespace,
    Function
  };

  Value() : data_(Undefined{}) {}
  Value(Undefined v) : data_(std::move(v)) {}                               // NOLINT: plain values are values
  Value(None v) : data_(v) {}                                               // NOLINT
  Value(bool v) : data_(v) {}                                               // NOLINT
  Value(std::int64_t v) : data_(v) {}                                       // NOLINT
  Value(double v) : data_(v) {}                                             // NOLINT
  Value(std::string v) : data_(std::move(v)) {}                             // NOLINT
  Value(const char* v) : data_(std::string(v)) {}                           // NOLINT
  Value(List v) : data_(std::make_shared<const List>(std::move(v))) {}      // NOLINT
  Value(Dict v) : data_(std::make_shared<const Dict>(std::move(v))) {}      // NOLINT
  Value(Namespace v) : data_(std::make_shared<Namespace>(std::move(v))) {}  // NOLINT
  Value(Function v) : data_(std::make_shared<const Function>(std::move(v))) {}  // NOLINT
  static Value tuple(Items items) { return List{std::move(items), true}; }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_number() const { return is(Kind::Bool) || is(Kind::Int) || is(Kind::Float); }
  std::string_view kind_name() const;  // as Python names it: "str", "list"

  // Only where the kind is the one asked for.
  bool boolean() const { return std::get<bool>(data_); }
  std::int64_t whole() const;  // of a bool too
  double real() const;         // of any number
  const std::string& text() const { return std::get<std::string>(data_); }
  const Items& items() const { return std::get<std::shared_ptr<const List>>(data_)->items; }
  bool is_tuple() const { return is(Kind::List) && std::get<std::shared_ptr<const List>>(data_)->tuple; }
  const Entries& entries() const { return std::get<std::shared_ptr<const Dict>>(data_)->entries; }
  Namespace& space() const { return *std::get<std::shared_ptr<Namespace>>(data_); }
  const Function& function() const { return *std::get<std::shared_ptr<const Function>>(data_); }
  const std::string& missing() const { return std::get<Undefined>(data_).name; }
  const void* address() const;  // of a shared value, null for plain ones: `is sameas`

  bool truth() const;
  // "" for what is undefined, "True", "[1, 'a']": what {{ x }} prints.
  std::string str() const;
  std::string repr() const;

 private:
  // In the order of Kind.
  std::variant<Undefined, None, bool, std::int64_t, double, std::string, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Function>>
      data_;
};

// What a call was given.
struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;
};

const Value* find(const Entries& entries, const Value& key);
const Value* find(const Entries& entries, std::string_view key);

bool equal(const Value& a, const Value& b);
bool less(const Value& a, const Value& b);             // throws where Python has no order
bool contains(const Value& whole, const Value& part);  // `part in whole`
Items elements(const Value& value);                    // what a loop goes over
std::int64_t length(const Value& value);
Value arithmetic(std::string_view op, const Value& a, const Value& b);
// x[start:stop:step]; what is not given is none.
Value slice(const Value& x, const Value& start, const Value& stop, const Value& step);

// As Python's json.dumps without escapes of other scripts. `indent` below 0: on one line.
struct JsonStyle {
  int indent = -1;
  bool sort_keys = false, ascii = false;
  std::string comma, colon = ": ";  // an empty comma is ", ", or "," where lines are indented
};
std::string json_text(const Value& value, const JsonStyle& style = {});

// Where each character of UTF-8 begins, and the end: sizes and slices count characters.
std::vector<std::size_t> character_starts(std::string_view text);

}  // namespace lathe::llm::jinja
