// Methods of strings, lists and dicts, as Python has them. None changes its value: templates get constants.
#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "apps/llm/jinja/builtins.h"

namespace lathe::llm::jinja {
namespace {

using Kind = Value::Kind;

template <class Change>
std::string each_character(const std::string& text, Change change) {
  std::string out;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t size = utf8proc_iterate(bytes, left, &code);
    if (size <= 0) {  // no text: kept as it is
      out += static_cast<char>(*bytes++);
      --left;
      continue;
    }
    utf8proc_uint8_t encoded[4];
    const utf8proc_ssize_t written = utf8proc_encode_char(change(code), encoded);
    out.append(reinterpret_cast<const char*>(encoded), static_cast<std::size_t>(written));
    bytes += size;
    left -= size;
  }
  return out;
}

bool is_letter(utf8proc_int32_t code) {
  const utf8proc_category_t c = utf8proc_category(code);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

template <class Holds>
bool all_characters(const std::string& text, Holds holds) {
  bool all = !text.empty();
  each_character(text, [&](utf8proc_int32_t code) {
    all = all && holds(code);
    return code;
  });
  return all;
}

// Words between blanks, or between separators; at most `limit` cuts where it is not negative.
Value split_text(const std::string& text, const Bound& a) {  // sep, maxsplit
  List out;
  std::int64_t left = a.whole(1, -1);
  std::size_t at = 0;
  if (!a.has(0) || a[0].is(Kind::None)) {
    while (true) {
      at = text.find_first_not_of(kSpaces, at);
      if (at == std::string::npos) return out;
      std::size_t end = left == 0 ? std::string::npos : text.find_first_of(kSpaces, at);
      if (left-- == 0) {
        out.items.emplace_back(text.substr(at));
        return out;
      }
      out.items.emplace_back(text.substr(at, end - at));
      if (end == std::string::npos) return out;
      at = end;
    }
  }
  const std::string separator = a[0].str();
  if (separator.empty()) throw TemplateError("split by an empty string");
  while (left-- != 0) {
    const std::size_t end = text.find(separator, at);
    if (end == std::string::npos) break;
    out.items.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  out.items.emplace_back(text.substr(at));
  return out;
}

Value split_from_end(const std::string& text, const Bound& a) {  // sep, maxsplit
  if (!a.has(0) || a[0].is(Kind::None) || a.whole(1, -1) < 0) return split_text(text, a);
  const std::string separator = a[0].str();
  if (separator.empty()) throw TemplateError("split by an empty string");
  List out;
  std::string rest = text;
  for (std::int64_t left = a.whole(1, -1); left > 0; --left) {
    const std::size_t at = rest.rfind(separator);
    if (at == std::string::npos) break;
    out.items.emplace_back(rest.substr(at + separator.size()));
    rest.resize(at);
  }
  out.items.emplace_back(rest);
  std::reverse(out.items.begin(), out.items.end());
  return out;
}

Value lines_of(const std::string& text, bool keep_ends) {
  List out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::size_t next = std::min(end + 1, text.size());
    out.items.emplace_back(text.substr(at, (keep_ends ? next : end) - at));
    at = end + 1;
  }
  return out;
}

bool meets(const Value& self, const Value& ends, bool start) {
  if (ends.is(Kind::List))
    return std::any_of(ends.items().begin(), ends.items().end(),
                       [&](const Value& e) { return meets(self, e, start); });
  if (!ends.is(Kind::String))
    throw TemplateError(
        fmt::format("{} needs a string, not {}", start ? "startswith" : "endswith", ends.kind_name()));
  return start ? self.text().starts_with(ends.text()) : self.text().ends_with(ends.text());
}

std::int64_t characters_before(const std::string& text, std::size_t byte) {
  return byte == std::string::npos
             ? -1
             : static_cast<std::int64_t>(character_starts(std::string_view(text).substr(0, byte)).size()) - 1;
}

std::int64_t count_of(const std::string& text, const std::string& part) {
  if (part.empty()) return length(Value(text)) + 1;
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

Value joined_by(const std::string& separator, const Value& parts) {
  std::string out;
  bool first = true;
  for (const Value& part : elements(parts)) {
    if (!part.is(Kind::String))
      throw TemplateError(fmt::format("join of {}, strings are needed", part.kind_name()));
    out += (first ? "" : separator) + part.text();
    first = false;
  }
  return out;
}

Value partitioned(const std::string& text, const std::string& separator, bool last) {
  const std::size_t at = separator.empty() ? std::string::npos
                         : last            ? text.rfind(separator)
                                           : text.find(separator);
  if (at == std::string::npos) return last ? Value::tuple({"", "", text}) : Value::tuple({text, "", ""});
  return Value::tuple({text.substr(0, at), separator, text.substr(at + separator.size())});
}

Value position_in(const Value& list, const Value& x) {
  for (std::size_t i = 0; i < list.items().size(); ++i)
    if (equal(list.items()[i], x)) return static_cast<std::int64_t>(i);
  throw TemplateError(fmt::format("{} is not in the list", x.repr()));
}

Value parts_of(const Value& dict, bool keys, bool values) {
  List out;
  for (const auto& [k, v] : dict.entries())
    out.items.push_back(keys && values ? Value::tuple({k, v}) : keys ? k : v);
  return out;
}

// clang-format off
constexpr MethodRow kMethods[] = {
    {Kind::String, "capitalize",   "",             [](const Value& x, const Bound&) -> Value { return capitalized(x.text()); }},
    {Kind::String, "count",        "sub",          [](const Value& x, const Bound& a) -> Value { return count_of(x.text(), a.text(0, "")); }},
    {Kind::String, "endswith",     "suffix",       [](const Value& x, const Bound& a) -> Value { return meets(x, a[0], false); }},
    {Kind::String, "find",         "sub",          [](const Value& x, const Bound& a) -> Value { return characters_before(x.text(), x.text().find(a.text(0, ""))); }},
    {Kind::String, "isalpha",      "",             [](const Value& x, const Bound&) -> Value { return all_characters(x.text(), is_letter); }},
    {Kind::String, "isdigit",      "",             [](const Value& x, const Bound&) -> Value { return all_characters(x.text(), [](utf8proc_int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_ND; }); }},
    {Kind::String, "isspace",      "",             [](const Value& x, const Bound&) -> Value { return !x.text().empty() && x.text().find_first_not_of(kSpaces) == std::string::npos; }},
    {Kind::String, "join",         "iterable",     [](const Value& x, const Bound& a) { return joined_by(x.text(), a[0]); }},
    {Kind::String, "lower",        "",             [](const Value& x, const Bound&) -> Value { return lower_case(x.text()); }},
    {Kind::String, "lstrip",       "chars",        [](const Value& x, const Bound& a) -> Value { return trimmed(x.text(), a.text(0, kSpaces), true, false); }},
    {Kind::String, "partition",    "sep",          [](const Value& x, const Bound& a) { return partitioned(x.text(), a.text(0, ""), false); }},
    {Kind::String, "removeprefix", "prefix",       [](const Value& x, const Bound& a) -> Value { return x.text().substr(meets(x, a[0], true) ? a[0].text().size() : 0); }},
    {Kind::String, "removesuffix", "suffix",       [](const Value& x, const Bound& a) -> Value { return x.text().substr(0, x.text().size() - (meets(x, a[0], false) ? a[0].text().size() : 0)); }},
    {Kind::String, "replace",      "old new count", [](const Value& x, const Bound& a) { return run_filter("replace", x, {{a[0], a[1], a.whole(2, -1)}, {}}); }},
    {Kind::String, "rfind",        "sub",          [](const Value& x, const Bound& a) -> Value { return characters_before(x.text(), x.text().rfind(a.text(0, ""))); }},
    {Kind::String, "rpartition",   "sep",          [](const Value& x, const Bound& a) { return partitioned(x.text(), a.text(0, ""), true); }},
    {Kind::String, "rsplit",       "sep maxsplit", [](const Value& x, const Bound& a) { return split_from_end(x.text(), a); }},
    {Kind::String, "rstrip",       "chars",        [](const Value& x, const Bound& a) -> Value { return trimmed(x.text(), a.text(0, kSpaces), false, true); }},
    {Kind::String, "split",        "sep maxsplit", [](const Value& x, const Bound& a) { return split_text(x.text(), a); }},
    {Kind::String, "splitlines",   "keepends",     [](const Value& x, const Bound& a) { return lines_of(x.text(), a.flag(0)); }},
    {Kind::String, "startswith",   "prefix",       [](const Value& x, const Bound& a) -> Value { return meets(x, a[0], true); }},
    {Kind::String, "strip",        "chars",        [](const Value& x, const Bound& a) -> Value { return trimmed(x.text(), a.text(0, kSpaces), true, true); }},
    {Kind::String, "title",        "",             [](const Value& x, const Bound&) -> Value { return title_case(x.text()); }},
    {Kind::String, "upper",        "",             [](const Value& x, const Bound&) -> Value { return upper_case(x.text()); }},
    {Kind::List,   "count",        "value",        [](const Value& x, const Bound& a) -> Value { return static_cast<std::int64_t>(std::count_if(x.items().begin(), x.items().end(), [&](const Value& v) { return equal(v, a[0]); })); }},
    {Kind::List,   "index",        "value",        [](const Value& x, const Bound& a) { return position_in(x, a[0]); }},
    {Kind::Dict,   "get",          "key default",  [](const Value& x, const Bound& a) -> Value { const Value* v = find(x.entries(), a[0]); return v != nullptr ? *v : a.has(1) ? a[1] : Value(None{}); }},
    {Kind::Dict,   "items",        "",             [](const Value& x, const Bound&) { return parts_of(x, true, true); }},
    {Kind::Dict,   "keys",         "",             [](const Value& x, const Bound&) { return parts_of(x, true, false); }},
    {Kind::Dict,   "values",       "",             [](const Value& x, const Bound&) { return parts_of(x, false, true); }},
};
// clang-format on

}  // namespace

std::span<const MethodRow> method_rows() { return kMethods; }

std::string upper_case(const std::string& text) { return each_character(text, utf8proc_toupper); }
std::string lower_case(const std::string& text) { return each_character(text, utf8proc_tolower); }

std::string capitalized(const std::string& text) {
  bool first = true;
  return each_character(text, [&](utf8proc_int32_t code) {
    return std::exchange(first, false) ? utf8proc_totitle(code) : utf8proc_tolower(code);
  });
}

std::string title_case(const std::string& text) {
  bool inside = false;
  return each_character(text, [&](utf8proc_int32_t code) {
    const bool before = std::exchange(inside, is_letter(code));
    return before ? utf8proc_tolower(code) : utf8proc_totitle(code);
  });
}

// `characters` is a set of bytes; a character beyond ASCII in it is compared whole.
std::string trimmed(const std::string& text, std::string_view characters, bool left, bool right) {
  const std::vector<std::size_t> starts = character_starts(text);
  std::size_t begin = 0, end = starts.size() - 1;
  const auto is_one = [&](std::size_t i) {
    const std::string_view c = std::string_view(text).substr(starts[i], starts[i + 1] - starts[i]);
    return characters.find(c) != std::string_view::npos;
  };
  while (left && begin < end && is_one(begin)) ++begin;
  while (right && begin < end && is_one(end - 1)) --end;
  return text.substr(starts[begin], starts[end] - starts[begin]);
}

}  // namespace lathe::llm::jinja
