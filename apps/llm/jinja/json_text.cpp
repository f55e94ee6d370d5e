// Values as JSON, written as Python's json module writes them, because models were trained on its spaces.
#include <fmt/format.h>

#include <algorithm>

#include "apps/llm/jinja/value.h"

namespace lathe::llm::jinja {
namespace {

char32_t code_point_at(std::string_view text, std::size_t begin, std::size_t end) {
  const auto first = static_cast<unsigned char>(text[begin]);
  if (first < 0x80) return first;
  char32_t code = first & (end - begin == 2 ? 0x1fU : end - begin == 3 ? 0x0fU : 0x07U);
  for (std::size_t i = begin + 1; i < end; ++i)
    code = (code << 6U) | (static_cast<unsigned char>(text[i]) & 0x3fU);
  return code;
}

std::string escaped_unit(char32_t unit) { return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(unit)); }

std::string escaped(char32_t code) {
  if (code < 0x10000) return escaped_unit(code);
  code -= 0x10000;
  return escaped_unit(0xd800 + (code >> 10U)) + escaped_unit(0xdc00 + (code & 0x3ffU));
}

std::string string_text(const std::string& text, bool ascii) {
  std::string out = "\"";
  const std::vector<std::size_t> starts = character_starts(text);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::string_view c = std::string_view(text).substr(starts[i], starts[i + 1] - starts[i]);
    const char32_t code = code_point_at(text, starts[i], starts[i + 1]);
    if (code == '"')
      out += "\\\"";
    else if (code == '\\')
      out += "\\\\";
    else if (code == '\n')
      out += "\\n";
    else if (code == '\r')
      out += "\\r";
    else if (code == '\t')
      out += "\\t";
    else if (code == '\b')
      out += "\\b";
    else if (code == '\f')
      out += "\\f";
    else if (code < 0x20 || (ascii && code >= 0x7f))
      out += code == 0x7f ? std::string(c) : escaped(code);
    else
      out += c;
  }
  return out + '"';
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {
    if (style_.comma.empty()) style_.comma = style_.indent < 0 ? ", " : ",";
  }

  std::string write(const Value& value) {
    using Kind = Value::Kind;
    switch (value.kind()) {
      case Kind::None: return "null";
      case Kind::Bool: return value.boolean() ? "true" : "false";
      case Kind::Int: return value.str();
      case Kind::Float: return number(value.real());
      case Kind::String: return string_text(value.text(), style_.ascii);
      case Kind::List: {
        std::vector<std::string> parts;
        ++depth_;
        for (const Value& item : value.items()) parts.push_back(write(item));
        --depth_;
        return bracketed('[', parts, ']');
      }
      case Kind::Dict: return dict(value.entries());
      case Kind::Undefined: throw TemplateError(fmt::format("tojson: {} is undefined", value.missing()));
      default: throw TemplateError(fmt::format("tojson: {} is not JSON", value.kind_name()));
    }
  }

 private:
  static std::string number(double v) {
    if (v != v) return "NaN";
    if (v == v * 2 && v != 0) return v < 0 ? "-Infinity" : "Infinity";
    return Value(v).str();
  }

  std::string dict(Entries entries) {
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return less(a.first, b.first); });
    std::vector<std::string> parts;
    ++depth_;
    for (const auto& [key, v] : entries) {
      const std::string name = key.is(Value::Kind::String) ? key.text() : write(key);
      parts.push_back(string_text(name, style_.ascii) + style_.colon + write(v));
    }
    --depth_;
    return bracketed('{', parts, '}');
  }

  std::string bracketed(char open, const std::vector<std::string>& parts, char close) const {
    if (parts.empty()) return std::string{open, close};
    const auto line = [&](int depth) {
      return style_.indent < 0 ? std::string()
                               : "\n" + std::string(static_cast<std::size_t>(style_.indent * depth), ' ');
    };
    std::string out(1, open);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i != 0) out += style_.comma;
      out += line(depth_ + 1) + parts[i];
    }
    return out + line(depth_) + close;
  }

  JsonStyle style_;
  int depth_ = 0;
};

}  // namespace

std::string json_text(const Value& value, const JsonStyle& style) { return Writer(style).write(value); }

}  // namespace lathe::llm::jinja
