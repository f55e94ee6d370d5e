// Filters, tests, functions and methods of values: a table each, in which a row is a name, the names of its
// parameters and what it does.
#pragma once

#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/llm/jinja/value.h"

namespace lathe::llm::jinja {

// Arguments in the order of a row's parameters; what was not given is undefined.
class Bound {
 public:
  // "chars" or "count=1": a default is a number, a word or nothing. "..." takes whatever is left.
  Bound(std::string_view name, std::string_view parameters, const Arguments& given);

  const Value& operator[](std::size_t i) const { return values_[i]; }
  bool has(std::size_t i) const { return !values_[i].is(Value::Kind::Undefined); }
  std::int64_t whole(std::size_t i, std::int64_t absent) const;
  std::string text(std::size_t i, std::string_view absent) const;
  bool flag(std::size_t i) const { return values_[i].truth(); }
  const Arguments& rest() const { return rest_; }

 private:
  std::string_view name_;
  std::vector<Value> values_;
  Arguments rest_;
};

struct FilterRow {
  std::string_view name, parameters;
  Value (*run)(const Value& x, const Bound& arguments);
};
struct TestRow {
  std::string_view name, parameters;
  bool (*run)(const Value& x, const Bound& arguments);
};
struct MethodRow {
  Value::Kind of;
  std::string_view name, parameters;
  Value (*run)(const Value& self, const Bound& arguments);
};

Value run_filter(std::string_view name, const Value& x, const Arguments& arguments);
bool run_test(std::string_view name, const Value& x, const Arguments& arguments);
// The method as a function bound to x, or nothing.
std::optional<Value> method_of(const Value& x, std::string_view name);
// x.name and x[key]; undefined where there is none.
Value attribute(const Value& x, const std::string& name);
Value item(const Value& x, const Value& key);

// What every template sees: range, namespace, dict, raise_exception, strftime_now.
Entries global_functions(std::optional<std::time_t> now);

std::span<const MethodRow> method_rows();

std::string upper_case(const std::string& text);
std::string lower_case(const std::string& text);
std::string title_case(const std::string& text);
std::string capitalized(const std::string& text);
std::string trimmed(const std::string& text, std::string_view characters, bool left, bool right);
inline constexpr std::string_view kSpaces = " \t\n\r\f\v";

}  // namespace lathe::llm::jinja
