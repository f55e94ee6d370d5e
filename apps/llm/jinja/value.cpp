#include "apps/llm/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lathe::llm::jinja {
namespace {

constexpr std::int64_t kMostCharacters = std::int64_t{1} << 26;

// A float as Python prints it: the shortest digits that give it back, never without a point.
std::string float_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + quote;
}

std::string joined(const Items& items) {
  std::string out;
  for (const Value& item : items) out += (out.empty() ? "" : ", ") + item.repr();
  return out;
}

std::string entries_text(const Entries& entries) {
  std::string out;
  for (const auto& [key, value] : entries)
    out += (out.empty() ? "" : ", ") + key.repr() + ": " + value.repr();
  return "{" + out + "}";
}

[[noreturn]] void refuse_undefined(const Value& v) {
  throw TemplateError(fmt::format("{} is undefined", v.missing()));
}

void need_defined(const Value& v) {
  if (v.is(Value::Kind::Undefined)) refuse_undefined(v);
}

[[noreturn]] void refuse_operands(std::string_view op, const Value& a, const Value& b) {
  throw TemplateError(fmt::format("{} of {} and {}", op, a.kind_name(), b.kind_name()));
}

Value repeated(const Value& x, std::int64_t times) {
  times = std::max<std::int64_t>(times, 0);
  const std::int64_t size =
      x.is(Value::Kind::String) ? static_cast<std::int64_t>(x.text().size()) : length(x);
  if (size != 0 && times > kMostCharacters / size) throw TemplateError("a repetition is too long");
  if (x.is(Value::Kind::String)) {
    std::string out;
    for (std::int64_t i = 0; i < times; ++i) out += x.text();
    return out;
  }
  List out{{}, x.is_tuple()};
  for (std::int64_t i = 0; i < times; ++i)
    out.items.insert(out.items.end(), x.items().begin(), x.items().end());
  return out;
}

Value whole_arithmetic(char op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  const bool over = op == '+'   ? __builtin_add_overflow(a, b, &out)
                    : op == '-' ? __builtin_sub_overflow(a, b, &out)
                                : __builtin_mul_overflow(a, b, &out);
  if (over) throw TemplateError("a number is out of the range of 64 bits");
  return out;
}

Value whole_quotient(std::string_view op, std::int64_t a, std::int64_t b) {
  if (b == 0) throw TemplateError("division by zero");
  if (b == -1) return op == "%" ? Value(std::int64_t{0}) : whole_arithmetic('-', 0, a);
  std::int64_t quotient = a / b, rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    --quotient;
    rest += b;
  }
  return op == "%" ? rest : quotient;
}

Value power(const Value& a, const Value& b) {
  if (a.is(Value::Kind::Float) || b.is(Value::Kind::Float) || b.whole() < 0)
    return std::pow(a.real(), b.real());
  Value out = std::int64_t{1};
  if (b.whole() > 64 && std::abs(a.whole()) > 1)
    throw TemplateError("a number is out of the range of 64 bits");
  for (std::int64_t i = 0; i < std::min<std::int64_t>(b.whole(), 64 + b.whole() % 2); ++i)
    out = whole_arithmetic('*', out.whole(), a.whole());
  return out;
}

Value real_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (b == 0) throw TemplateError("division by zero");
  if (op == "/") return a / b;
  if (op == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace

std::string_view Value::kind_name() const {
  constexpr std::string_view kNames[] = {"undefined", "none", "bool", "int",       "float",
                                         "str",       "list", "dict", "namespace", "function"};
  return is_tuple() ? "tuple" : kNames[data_.index()];
}

std::int64_t Value::whole() const {
  return is(Kind::Bool) ? (boolean() ? 1 : 0) : std::get<std::int64_t>(data_);
}

double Value::real() const {
  return is(Kind::Float) ? std::get<double>(data_) : static_cast<double>(whole());
}

const void* Value::address() const {
  switch (kind()) {
    case Kind::List: return std::get<std::shared_ptr<const List>>(data_).get();
    case Kind::Dict: return std::get<std::shared_ptr<const Dict>>(data_).get();
    case Kind::Namespace: return std::get<std::shared_ptr<Namespace>>(data_).get();
    case Kind::Function: return std::get<std::shared_ptr<const Function>>(data_).get();
    default: return nullptr;
  }
}

bool Value::truth() const {
  switch (kind()) {
    case Kind::Undefined:
    case Kind::None: return false;
    case Kind::Bool: return boolean();
    case Kind::Int: return whole() != 0;
    case Kind::Float: return real() != 0;
    case Kind::String: return !text().empty();
    case Kind::List: return !items().empty();
    case Kind::Dict: return !entries().empty();
    case Kind::Namespace:
    case Kind::Function: return true;
  }
  return false;
}

std::string Value::str() const {
  if (is(Kind::String)) return text();
  return is(Kind::Undefined) ? "" : repr();
}

std::string Value::repr() const {
  switch (kind()) {
    case Kind::Undefined: return "Undefined";
    case Kind::None: return "None";
    case Kind::Bool: return boolean() ? "True" : "False";
    case Kind::Int: return std::to_string(whole());
    case Kind::Float: return float_text(real());
    case Kind::String: return quoted(text());
    case Kind::List:
      if (!is_tuple()) return "[" + joined(items()) + "]";
      return "(" + joined(items()) + (items().size() == 1 ? ",)" : ")");
    case Kind::Dict: return entries_text(entries());
    case Kind::Namespace: return "<namespace>";
    case Kind::Function: return "<" + function().name + ">";
  }
  return "";
}

const Value* find(const Entries& entries, const Value& key) {
  for (const auto& [k, v] : entries)
    if (equal(k, key)) return &v;
  return nullptr;
}

const Value* find(const Entries& entries, std::string_view key) {
  for (const auto& [k, v] : entries)
    if (k.is(Value::Kind::String) && k.text() == key) return &v;
  return nullptr;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is(Value::Kind::Float) || b.is(Value::Kind::Float)) return a.real() == b.real();
    return a.whole() == b.whole();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::String: return a.text() == b.text();
    case Value::Kind::List:
      return a.is_tuple() == b.is_tuple() && a.items().size() == b.items().size() &&
             std::equal(a.items().begin(), a.items().end(), b.items().begin(), equal);
    case Value::Kind::Dict:
      return a.entries().size() == b.entries().size() &&
             std::all_of(a.entries().begin(), a.entries().end(), [&](const auto& entry) {
               const Value* other = find(b.entries(), entry.first);
               return other != nullptr && equal(entry.second, *other);
             });
    case Value::Kind::Namespace:
    case Value::Kind::Function: return a.address() == b.address();
    default: return true;  // none, undefined
  }
}

bool less(const Value& a, const Value& b) {
  need_defined(a);
  need_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Value::Kind::Float) || b.is(Value::Kind::Float)) return a.real() < b.real();
    return a.whole() < b.whole();
  }
  if (a.is(Value::Kind::String) && b.is(Value::Kind::String)) return a.text() < b.text();
  if (a.is(Value::Kind::List) && b.is(Value::Kind::List) && a.is_tuple() == b.is_tuple()) {
    for (std::size_t i = 0; i < std::min(a.items().size(), b.items().size()); ++i)
      if (!equal(a.items()[i], b.items()[i])) return less(a.items()[i], b.items()[i]);
    return a.items().size() < b.items().size();
  }
  refuse_operands("no order", a, b);
}

bool contains(const Value& whole, const Value& part) {
  switch (whole.kind()) {
    case Value::Kind::String:
      if (!part.is(Value::Kind::String)) refuse_operands("`in`", part, whole);
      return whole.text().find(part.text()) != std::string::npos;
    case Value::Kind::List:
      return std::any_of(whole.items().begin(), whole.items().end(),
                         [&](const Value& v) { return equal(v, part); });
    case Value::Kind::Dict: return find(whole.entries(), part) != nullptr;
    case Value::Kind::Undefined: return false;
    default: throw TemplateError(fmt::format("`in` needs a list, dict or string, not {}", whole.kind_name()));
  }
}

std::vector<std::size_t> character_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) starts.push_back(i);
  starts.push_back(text.size());
  return starts;
}

Items elements(const Value& value) {
  Items out;
  switch (value.kind()) {
    case Value::Kind::Undefined: return out;
    case Value::Kind::List: return value.items();
    case Value::Kind::Dict:
      for (const auto& entry : value.entries()) out.push_back(entry.first);
      return out;
    case Value::Kind::String: {
      const std::vector<std::size_t> starts = character_starts(value.text());
      for (std::size_t i = 0; i + 1 < starts.size(); ++i)
        out.emplace_back(value.text().substr(starts[i], starts[i + 1] - starts[i]));
      return out;
    }
    default: throw TemplateError(fmt::format("{} is nothing to go over", value.kind_name()));
  }
}

std::int64_t length(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::Undefined: return 0;
    case Value::Kind::String: return static_cast<std::int64_t>(character_starts(value.text()).size()) - 1;
    case Value::Kind::List: return static_cast<std::int64_t>(value.items().size());
    case Value::Kind::Dict: return static_cast<std::int64_t>(value.entries().size());
    default: throw TemplateError(fmt::format("{} has no length", value.kind_name()));
  }
}

Value arithmetic(std::string_view op, const Value& a, const Value& b) {
  if (op == "~") return a.str() + b.str();
  need_defined(a);
  need_defined(b);
  using Kind = Value::Kind;
  if (a.is_number() && b.is_number()) {
    if (op == "**") return power(a, b);
    if (op == "/" || a.is(Kind::Float) || b.is(Kind::Float)) return real_arithmetic(op, a.real(), b.real());
    if (op == "//" || op == "%") return whole_quotient(op, a.whole(), b.whole());
    return whole_arithmetic(op[0], a.whole(), b.whole());
  }
  if (op == "+" && a.is(Kind::String) && b.is(Kind::String)) return a.text() + b.text();
  if (op == "+" && a.is(Kind::List) && b.is(Kind::List) && a.is_tuple() == b.is_tuple()) {
    List out{a.items(), a.is_tuple()};
    out.items.insert(out.items.end(), b.items().begin(), b.items().end());
    return out;
  }
  const auto repeats = [](const Value& v) { return v.is(Kind::String) || v.is(Kind::List); };
  const auto counts = [](const Value& v) { return v.is(Kind::Int) || v.is(Kind::Bool); };
  if (op == "*" && repeats(a) && counts(b)) return repeated(a, b.whole());
  if (op == "*" && counts(a) && repeats(b)) return repeated(b, a.whole());
  refuse_operands(fmt::format("`{}`", op), a, b);
}

namespace {

std::int64_t slice_end(const Value& end, std::int64_t size, std::int64_t low, std::int64_t high,
                       std::int64_t absent) {
  if (end.is(Value::Kind::None) || end.is(Value::Kind::Undefined)) return absent;
  if (!end.is(Value::Kind::Int)) throw TemplateError(fmt::format("a slice by {}", end.kind_name()));
  std::int64_t at = std::clamp(end.whole(), -size - 1, size + 1);  // beyond is all the same, and cannot wrap
  if (at < 0) at += size;
  return std::clamp(at, low, high);
}

std::vector<std::int64_t> slice_positions(std::int64_t size, const Value& start, const Value& stop,
                                          const Value& step) {
  std::int64_t by = 1;
  if (step.is(Value::Kind::Int)) by = std::clamp(step.whole(), -size - 1, size + 1);
  if (by == 0) throw TemplateError("a slice with step 0");
  const std::int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  std::int64_t at = slice_end(start, size, low, high, by > 0 ? 0 : size - 1);
  const std::int64_t end = slice_end(stop, size, low, high, by > 0 ? size : -1);
  std::vector<std::int64_t> out;
  for (; by > 0 ? at < end : at > end; at += by) out.push_back(at);
  return out;
}

}  // namespace

Value slice(const Value& x, const Value& start, const Value& stop, const Value& step) {
  if (x.is(Value::Kind::String)) {
    const Items characters = elements(x);
    std::string out;
    for (const std::int64_t i : slice_positions(length(x), start, stop, step))
      out += characters[static_cast<std::size_t>(i)].text();
    return out;
  }
  need_defined(x);
  if (!x.is(Value::Kind::List)) throw TemplateError(fmt::format("a slice of {}", x.kind_name()));
  List out{{}, x.is_tuple()};
  for (const std::int64_t i : slice_positions(length(x), start, stop, step))
    out.items.push_back(x.items()[static_cast<std::size_t>(i)]);
  return out;
}

}  // namespace lathe::llm::jinja
