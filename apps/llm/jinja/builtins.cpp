#include "apps/llm/jinja/builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lathe::llm::jinja {
namespace {

using Kind = Value::Kind;

constexpr std::int64_t kLongestRange = 100000;

// "a.b" of a value, for filters that take an attribute's name or an index.
Value part(const Value& x, const Value& path) {
  if (!path.is(Kind::String)) return item(x, path);
  Value at = x;
  std::string_view rest = path.text();
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string name(rest.substr(0, dot));
    const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    at = number ? item(at, static_cast<std::int64_t>(std::stoll(name.substr(0, 18)))) : item(at, name);
    if (dot == std::string_view::npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

Arguments without_first(const Arguments& a, std::size_t count = 1) {
  Arguments out = a;
  out.positional.erase(out.positional.begin(), out.positional.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                            count, out.positional.size())));
  return out;
}

// select, reject, selectattr and rejectattr: the elements for which a test, or their truth, is `wanted`.
Value selected(const Value& x, const Arguments& given, bool by_attribute, bool wanted) {
  Arguments rest = given;
  std::optional<Value> path;
  if (by_attribute) {
    if (rest.positional.empty()) throw TemplateError("selectattr needs the name of an attribute");
    path = rest.positional[0];
    rest = without_first(rest);
  }
  std::optional<std::string> test;
  if (!rest.positional.empty()) {
    test = rest.positional[0].str();
    rest = without_first(rest);
  }
  List out;
  for (const Value& v : elements(x)) {
    const Value looked_at = path ? part(v, *path) : v;
    if ((test ? run_test(*test, looked_at, rest) : looked_at.truth()) == wanted) out.items.push_back(v);
  }
  return out;
}

Value mapped(const Value& x, const Arguments& given) {
  List out;
  const auto attribute_named = std::find_if(given.named.begin(), given.named.end(),
                                            [](const auto& a) { return a.first == "attribute"; });
  if (attribute_named != given.named.end()) {
    Value absent;
    for (const auto& [name, value] : given.named)
      if (name == "default") absent = value;
    for (const Value& v : elements(x)) {
      Value found = part(v, attribute_named->second);
      out.items.push_back(found.is(Kind::Undefined) && !absent.is(Kind::Undefined) ? absent : found);
    }
    return out;
  }
  if (given.positional.empty()) throw TemplateError("map needs a filter or attribute=");
  for (const Value& v : elements(x))
    out.items.push_back(run_filter(given.positional[0].str(), v, without_first(given)));
  return out;
}

// Case matters to none of Jinja's sorts unless it is told so.
Value folded(const Value& v, bool case_sensitive) {
  return v.is(Kind::String) && !case_sensitive ? Value(lower_case(v.text())) : v;
}

Value sorted(const Value& x, const Bound& a) {  // reverse, case_sensitive, attribute
  List out{elements(x), false};
  const auto key = [&](const Value& v) { return folded(a.has(2) ? part(v, a[2]) : v, a.flag(1)); };
  const bool reverse = a.flag(0);
  std::stable_sort(out.items.begin(), out.items.end(), [&](const Value& p, const Value& q) {
    return reverse ? less(key(q), key(p)) : less(key(p), key(q));
  });
  return out;
}

Value unique(const Value& x, const Bound& a) {  // case_sensitive, attribute
  List out;
  Items keys;
  for (const Value& v : elements(x)) {
    const Value key = folded(a.has(1) ? part(v, a[1]) : v, a.flag(0));
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key); })) continue;
    keys.push_back(key);
    out.items.push_back(v);
  }
  return out;
}

Value extreme(const Value& x, const Bound& a, bool greatest) {  // case_sensitive, attribute
  Value best{Undefined{"the least of nothing"}}, best_key;
  bool first = true;
  for (const Value& v : elements(x)) {
    const Value key = folded(a.has(1) ? part(v, a[1]) : v, a.flag(0));
    if (first || (greatest ? less(best_key, key) : less(key, best_key))) {
      best = v;
      best_key = key;
    }
    first = false;
  }
  return best;
}

Value dictionary_sorted(const Value& x, const Bound& a) {  // case_sensitive, by, reverse
  if (!x.is(Kind::Dict)) throw TemplateError(fmt::format("dictsort needs a dict, not {}", x.kind_name()));
  Entries entries = x.entries();
  const bool by_value = a.text(1, "key") == "value", reverse = a.flag(2);
  const auto key = [&](const auto& entry) {
    return folded(by_value ? entry.second : entry.first, a.flag(0));
  };
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& p, const auto& q) {
    return reverse ? less(key(q), key(p)) : less(key(p), key(q));
  });
  List out;
  for (const auto& [k, v] : entries) out.items.push_back(Value::tuple({k, v}));
  return out;
}

Value pairs(const Value& x) {
  if (x.is(Kind::Undefined)) return List{};
  if (!x.is(Kind::Dict)) throw TemplateError(fmt::format("items needs a dict, not {}", x.kind_name()));
  List out;
  for (const auto& [k, v] : x.entries()) out.items.push_back(Value::tuple({k, v}));
  return out;
}

Value joined(const Value& x, const Bound& a) {  // d, attribute
  std::string out;
  bool first = true;
  for (const Value& v : elements(x)) {
    if (!first) out += a.text(0, "");
    first = false;
    out += (a.has(1) ? part(v, a[1]) : v).str();
  }
  return out;
}

Value whole_of(const Value& x, const Bound& a) {  // default, base
  const Value absent = a.has(0) ? a[0] : Value(std::int64_t{0});
  if (x.is(Kind::Float)) {
    const double v = std::trunc(x.real());
    return std::abs(v) < 9.2e18 ? Value(static_cast<std::int64_t>(v)) : absent;
  }
  if (x.is_number()) return x.whole();
  if (!x.is(Kind::String)) return absent;
  std::string text = trimmed(x.text(), kSpaces, true, true);
  std::erase(text, '_');
  if (!text.empty() && text[0] == '+') text.erase(0, 1);
  std::int64_t v = 0;
  const char* end = text.data() + text.size();
  if (const auto r = std::from_chars(text.data(), end, v, static_cast<int>(a.whole(1, 10)));
      r.ec == std::errc() && r.ptr == end)
    return v;
  double real = 0;
  const auto r = std::from_chars(text.data(), end, real);
  if (r.ec == std::errc() && r.ptr == end && std::abs(real) < 9.2e18) return static_cast<std::int64_t>(real);
  return absent;
}

Value real_of(const Value& x, const Bound& a) {  // default
  if (x.is_number()) return x.real();
  if (x.is(Kind::String)) {
    const std::string text = trimmed(x.text(), kSpaces, true, true);
    double v = 0;
    const char* end = text.data() + text.size();
    const auto r = std::from_chars(text.data(), end, v);
    if (r.ec == std::errc() && r.ptr == end) return v;
  }
  return a.has(0) ? a[0] : Value(0.0);
}

Value rounded(const Value& x, const Bound& a) {  // precision, method
  if (!x.is_number()) throw TemplateError(fmt::format("round of {}", x.kind_name()));
  const std::string method = a.text(1, "common");
  if (method == "common" && !x.is(Kind::Float) && a.whole(0, 0) >= 0) return x.whole();
  const double scale = std::pow(10.0, static_cast<double>(a.whole(0, 0))), v = x.real() * scale;
  const double out = method == "ceil" ? std::ceil(v) : method == "floor" ? std::floor(v) : std::nearbyint(v);
  return out / scale;
}

Value absolute(const Value& x) {
  if (x.is(Kind::Float)) return std::abs(x.real());
  if (!x.is_number()) throw TemplateError(fmt::format("abs of {}", x.kind_name()));
  return x.whole() < 0 ? arithmetic("-", std::int64_t{0}, x) : Value(x.whole());
}

Value indented(const Value& x, const Bound& a) {  // width, first, blank
  const std::string pad =
      a[0].is(Kind::String)
          ? a[0].text()
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(a.whole(0, 4), 0, 1000)), ' ');
  const std::string text = x.str();
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const bool empty = end == at;
    if (at == 0 ? a.flag(1) : !empty || a.flag(2)) out += pad;
    out += text.substr(at, end - at);
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

Value summed(const Value& x, const Bound& a) {  // attribute, start
  Value total = a.has(1) ? a[1] : Value(std::int64_t{0});
  for (const Value& v : elements(x)) total = arithmetic("+", total, a.has(0) ? part(v, a[0]) : v);
  return total;
}

Value json_of(const Value& x, const Bound& a) {  // indent, ensure_ascii, separators, sort_keys
  JsonStyle style;
  if (a[0].is(Kind::Int)) style.indent = static_cast<int>(std::clamp<std::int64_t>(a[0].whole(), 0, 64));
  style.ascii = a.flag(1);
  if (a[2].is(Kind::List) && a[2].items().size() == 2) {
    style.comma = a[2].items()[0].str();
    style.colon = a[2].items()[1].str();
  }
  style.sort_keys = a.flag(3);
  return json_text(x, style);
}

Value escaped(const Value& x) {
  std::string out;
  for (const char c : x.str()) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&#34;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += c;
  }
  return out;
}

Value replaced(const Value& x, const Bound& a) {  // old, new, count
  const std::string text = x.str(), from = a.text(0, ""), to = a.text(1, "");
  std::int64_t left = a.whole(2, -1);
  std::string out;
  std::size_t at = 0;
  if (from.empty()) {  // between all characters, as in Python
    for (const Value& c : elements(Value(text))) {
      if (left != 0) out += to, --left;
      out += c.text();
    }
    return left != 0 ? out + to : out;
  }
  while (left != 0) {
    const std::size_t found = text.find(from, at);
    if (found == std::string::npos) break;
    out += text.substr(at, found - at) + to;
    at = found + from.size();
    --left;
  }
  return out + text.substr(at);
}

Value first_of(const Value& x, bool last) {
  const Items items = elements(x);
  if (items.empty()) return Undefined{last ? "the last of nothing" : "the first of nothing"};
  return last ? items.back() : items.front();
}

// Words that begin behind a blank, a hyphen or an open bracket; the method of strings goes by letters.
Value titled(const Value& x) {
  const std::string text = x.str();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\n\r\f\v-({[<", at), text.size());
    const std::size_t end = std::min(text.find_first_of(" \t\n\r\f\v-({[<", begin), text.size());
    out += text.substr(at, begin - at) + capitalized(text.substr(begin, end - begin));
    at = end;
  }
  return out;
}

Value reversed(const Value& x) {
  Items items = elements(x);
  std::reverse(items.begin(), items.end());
  if (!x.is(Kind::String)) return List{std::move(items), false};
  std::string out;
  for (const Value& c : items) out += c.text();
  return out;
}

Value default_of(const Value& x, const Bound& a) {  // default_value, boolean
  const bool absent = x.is(Kind::Undefined) || (a.flag(1) && !x.truth());
  return absent ? (a.has(0) ? a[0] : Value("")) : x;
}

Value grouped(const Value& x, const Bound& a) {  // attribute
  List out;
  for (const Value& v : elements(x)) {
    const Value key = part(v, a[0]);
    auto at = std::find_if(out.items.begin(), out.items.end(),
                           [&](const Value& g) { return equal(g.items()[0], key); });
    if (at == out.items.end()) {
      out.items.push_back(Value::tuple({key, List{{v}, false}}));
    } else {
      List more{at->items()[1].items(), false};
      more.items.push_back(v);
      *at = Value::tuple({key, std::move(more)});
    }
  }
  std::stable_sort(out.items.begin(), out.items.end(),
                   [](const Value& p, const Value& q) { return less(p.items()[0], q.items()[0]); });
  return out;
}

// clang-format off
constexpr FilterRow kFilters[] = {
    {"abs",        "",                                         [](const Value& x, const Bound&) { return absolute(x); }},
    {"capitalize", "",                                         [](const Value& x, const Bound&) -> Value { return capitalized(x.str()); }},
    {"count",      "",                                         [](const Value& x, const Bound&) -> Value { return length(x); }},
    {"d",          "default_value boolean",                    default_of},
    {"default",    "default_value boolean",                    default_of},
    {"dictsort",   "case_sensitive by reverse",                dictionary_sorted},
    {"e",          "",                                         [](const Value& x, const Bound&) { return escaped(x); }},
    {"escape",     "",                                         [](const Value& x, const Bound&) { return escaped(x); }},
    {"first",      "",                                         [](const Value& x, const Bound&) { return first_of(x, false); }},
    {"float",      "default",                                  real_of},
    {"groupby",    "attribute",                                grouped},
    {"indent",     "width first blank",                        indented},
    {"int",        "default base",                             whole_of},
    {"items",      "",                                         [](const Value& x, const Bound&) { return pairs(x); }},
    {"join",       "d attribute",                              joined},
    {"last",       "",                                         [](const Value& x, const Bound&) { return first_of(x, true); }},
    {"length",     "",                                         [](const Value& x, const Bound&) -> Value { return length(x); }},
    {"list",       "",                                         [](const Value& x, const Bound&) -> Value { return List{elements(x), false}; }},
    {"lower",      "",                                         [](const Value& x, const Bound&) -> Value { return lower_case(x.str()); }},
    {"map",        "...",                                      [](const Value& x, const Bound& a) { return mapped(x, a.rest()); }},
    {"max",        "case_sensitive attribute",                 [](const Value& x, const Bound& a) { return extreme(x, a, true); }},
    {"min",        "case_sensitive attribute",                 [](const Value& x, const Bound& a) { return extreme(x, a, false); }},
    {"reject",     "...",                                      [](const Value& x, const Bound& a) { return selected(x, a.rest(), false, false); }},
    {"rejectattr", "...",                                      [](const Value& x, const Bound& a) { return selected(x, a.rest(), true, false); }},
    {"replace",    "old new count",                            replaced},
    {"reverse",    "",                                         [](const Value& x, const Bound&) { return reversed(x); }},
    {"round",      "precision method",                         rounded},
    {"safe",       "",                                         [](const Value& x, const Bound&) -> Value { return x.str(); }},
    {"select",     "...",                                      [](const Value& x, const Bound& a) { return selected(x, a.rest(), false, true); }},
    {"selectattr", "...",                                      [](const Value& x, const Bound& a) { return selected(x, a.rest(), true, true); }},
    {"sort",       "reverse case_sensitive attribute",         sorted},
    {"string",     "",                                         [](const Value& x, const Bound&) -> Value { return x.str(); }},
    {"sum",        "attribute start",                          summed},
    {"title",      "",                                         [](const Value& x, const Bound&) { return titled(x); }},
    {"tojson",     "indent ensure_ascii separators sort_keys", json_of},
    {"trim",       "chars",                                    [](const Value& x, const Bound& a) -> Value { return trimmed(x.str(), a.text(0, kSpaces), true, true); }},
    {"unique",     "case_sensitive attribute",                 unique},
    {"upper",      "",                                         [](const Value& x, const Bound&) -> Value { return upper_case(x.str()); }},
};

bool divides(const Value& x, const Bound& a) { return arithmetic("%", x, a[0]).real() == 0; }
bool whole_number(const Value& x) { return x.is(Kind::Int); }
bool iterates(const Value& x) { return x.is(Kind::List) || x.is(Kind::Dict) || x.is(Kind::String) || x.is(Kind::Undefined); }
bool is_equal(const Value& x, const Bound& a) { return equal(x, a[0]); }
bool is_unequal(const Value& x, const Bound& a) { return !equal(x, a[0]); }
bool is_less(const Value& x, const Bound& a) { return less(x, a[0]); }
bool is_greater(const Value& x, const Bound& a) { return less(a[0], x); }
bool is_same(const Value& x, const Bound& a) {
  return x.kind() == a[0].kind() && (x.address() != nullptr ? x.address() == a[0].address() : equal(x, a[0]));
}

constexpr TestRow kTests[] = {
    {"!=",          "other", is_unequal},
    {"<",           "other", is_less},
    {"<=",          "other", [](const Value& x, const Bound& a) { return !less(a[0], x); }},
    {"==",          "other", is_equal},
    {">",           "other", is_greater},
    {">=",          "other", [](const Value& x, const Bound& a) { return !less(x, a[0]); }},
    {"boolean",     "",      [](const Value& x, const Bound&) { return x.is(Kind::Bool); }},
    {"callable",    "",      [](const Value& x, const Bound&) { return x.is(Kind::Function); }},
    {"defined",     "",      [](const Value& x, const Bound&) { return !x.is(Kind::Undefined); }},
    {"divisibleby", "num",   divides},
    {"eq",          "other", is_equal},
    {"equalto",     "other", is_equal},
    {"even",        "",      [](const Value& x, const Bound&) { return arithmetic("%", x, std::int64_t{2}).real() == 0; }},
    {"false",       "",      [](const Value& x, const Bound&) { return x.is(Kind::Bool) && !x.boolean(); }},
    {"float",       "",      [](const Value& x, const Bound&) { return x.is(Kind::Float); }},
    {"ge",          "other", [](const Value& x, const Bound& a) { return !less(x, a[0]); }},
    {"greaterthan", "other", is_greater},
    {"gt",          "other", is_greater},
    {"in",          "seq",   [](const Value& x, const Bound& a) { return contains(a[0], x); }},
    {"integer",     "",      [](const Value& x, const Bound&) { return whole_number(x); }},
    {"iterable",    "",      [](const Value& x, const Bound&) { return iterates(x); }},
    {"le",          "other", [](const Value& x, const Bound& a) { return !less(a[0], x); }},
    {"lessthan",    "other", is_less},
    {"lower",       "",      [](const Value& x, const Bound&) { return x.str() == lower_case(x.str()) && x.str() != upper_case(x.str()); }},
    {"lt",          "other", is_less},
    {"mapping",     "",      [](const Value& x, const Bound&) { return x.is(Kind::Dict); }},
    {"ne",          "other", is_unequal},
    {"none",        "",      [](const Value& x, const Bound&) { return x.is(Kind::None); }},
    {"number",      "",      [](const Value& x, const Bound&) { return x.is_number(); }},
    {"odd",         "",      [](const Value& x, const Bound&) { return arithmetic("%", x, std::int64_t{2}).real() == 1; }},
    {"sameas",      "other", is_same},
    {"sequence",    "",      [](const Value& x, const Bound&) { return iterates(x); }},
    {"string",      "",      [](const Value& x, const Bound&) { return x.is(Kind::String); }},
    {"true",        "",      [](const Value& x, const Bound&) { return x.is(Kind::Bool) && x.boolean(); }},
    {"undefined",   "",      [](const Value& x, const Bound&) { return x.is(Kind::Undefined); }},
    {"upper",       "",      [](const Value& x, const Bound&) { return x.str() == upper_case(x.str()) && x.str() != lower_case(x.str()); }},
};
// clang-format on

template <std::size_t N, class Row>
const Row* row_named(const Row (&rows)[N], std::string_view name) {
  const auto* at =
      std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.name == name; });
  return at == std::end(rows) ? nullptr : at;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end != 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Value range_of(const Arguments& given) {
  const Bound a("range", "start stop step", given);
  for (std::size_t i = 0; i < 3; ++i)
    if (a.has(i) && !a[i].is(Kind::Int)) throw TemplateError(fmt::format("range of {}", a[i].kind_name()));
  if (!a.has(0)) throw TemplateError("range needs an end");
  const std::int64_t start = a.has(1) ? a.whole(0, 0) : 0, stop = a.has(1) ? a.whole(1, 0) : a.whole(0, 0);
  const std::int64_t step = a.whole(2, 1);
  if (step == 0) throw TemplateError("a range with step 0");
  List out;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (out.items.size() == kLongestRange)
      throw TemplateError(fmt::format("a range has more than {} numbers", kLongestRange));
    out.items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return out;
}

Value time_text(std::time_t now, const std::string& format) {
  std::tm parts{};
  localtime_r(&now, &parts);
  if (format.empty()) return "";
  std::string out(format.size() * 4 + 256, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &parts));
  return out;
}

Value named_values(const Arguments& a, bool space) {
  Entries entries;
  for (const Value& v : a.positional) {
    if (!v.is(Kind::Dict)) throw TemplateError("a namespace or dict is made of names and values");
    entries.insert(entries.end(), v.entries().begin(), v.entries().end());
  }
  for (const auto& [name, value] : a.named) entries.emplace_back(name, value);
  return space ? Value(Namespace{std::move(entries)}) : Value(Dict{std::move(entries)});
}

}  // namespace

Bound::Bound(std::string_view name, std::string_view parameters, const Arguments& given) : name_(name) {
  const std::vector<std::string_view> names = words_of(parameters);
  if (names.size() == 1 && names[0] == "...") {
    rest_ = given;
    return;
  }
  if (given.positional.size() > names.size())
    throw TemplateError(fmt::format("{} takes at most {} arguments, {} were given", name, names.size(),
                                    given.positional.size()));
  values_ = given.positional;
  values_.resize(names.size());
  for (const auto& [key, value] : given.named) {
    const auto at = std::find(names.begin(), names.end(), key);
    if (at == names.end()) throw TemplateError(fmt::format("{} has no argument '{}'", name, key));
    values_[static_cast<std::size_t>(at - names.begin())] = value;
  }
}

std::int64_t Bound::whole(std::size_t i, std::int64_t absent) const {
  if (!has(i) || values_[i].is(Kind::None)) return absent;
  if (!values_[i].is(Kind::Int) && !values_[i].is(Kind::Bool))
    throw TemplateError(fmt::format("{} needs an integer, not {}", name_, values_[i].kind_name()));
  return values_[i].whole();
}

std::string Bound::text(std::size_t i, std::string_view absent) const {
  if (!has(i) || values_[i].is(Kind::None)) return std::string(absent);
  return values_[i].str();
}

Value run_filter(std::string_view name, const Value& x, const Arguments& arguments) {
  const FilterRow* row = row_named(kFilters, name);
  if (row == nullptr) throw TemplateError(fmt::format("there is no filter '{}'", name));
  return row->run(x, Bound(name, row->parameters, arguments));
}

bool run_test(std::string_view name, const Value& x, const Arguments& arguments) {
  if (name == "filter" || name == "test")
    return name == "filter" ? row_named(kFilters, x.str()) != nullptr : row_named(kTests, x.str()) != nullptr;
  const TestRow* row = row_named(kTests, name);
  if (row == nullptr) throw TemplateError(fmt::format("there is no test '{}'", name));
  return row->run(x, Bound(name, row->parameters, arguments));
}

std::optional<Value> method_of(const Value& x, std::string_view name) {
  for (const MethodRow& row : method_rows()) {
    if (row.of != x.kind() || row.name != name) continue;
    return Function{std::string(name), [row, x](const Arguments& given) {
                      return row.run(x, Bound(row.name, row.parameters, given));
                    }};
  }
  return std::nullopt;
}

Value item(const Value& x, const Value& key) {
  using K = Value::Kind;
  if (x.is(K::Undefined)) throw TemplateError(fmt::format("{} is undefined", x.missing()));
  if (x.is(K::Dict))
    if (const Value* found = find(x.entries(), key)) return *found;
  if (x.is(K::Namespace))
    if (const Value* found = find(x.space().entries, key)) return *found;
  if ((x.is(K::List) || x.is(K::String)) && key.is(K::Int)) {
    const std::int64_t size = length(x), at = key.whole() < 0 ? key.whole() + size : key.whole();
    if (at >= 0 && at < size) return elements(x)[static_cast<std::size_t>(at)];
    return Undefined{fmt::format("element {} of a {} of {}", key.whole(), x.kind_name(), size)};
  }
  if (key.is(K::String))
    if (std::optional<Value> method = method_of(x, key.text())) return *std::move(method);
  return Undefined{fmt::format("{} of a {}", key.repr(), x.kind_name())};
}

Value attribute(const Value& x, const std::string& name) {
  if (std::optional<Value> method = method_of(x, name)) return *std::move(method);
  Value found = item(x, name);
  return found.is(Kind::Undefined) ? Value(Undefined{fmt::format("'{}' of a {}", name, x.kind_name())})
                                   : found;
}

Entries global_functions(std::optional<std::time_t> now) {
  Entries all;
  const auto add = [&](const char* name, std::function<Value(const Arguments&)> run) {
    all.emplace_back(name, Function{name, std::move(run)});
  };
  add("range", range_of);
  add("namespace", [](const Arguments& a) { return named_values(a, true); });
  add("dict", [](const Arguments& a) { return named_values(a, false); });
  add("raise_exception", [](const Arguments& a) -> Value {
    throw TemplateError(
        Bound("raise_exception", "message", a).text(0, "the template refuses this conversation"));
  });
  add("strftime_now", [now](const Arguments& a) {
    return time_text(now.value_or(std::time(nullptr)), Bound("strftime_now", "format", a).text(0, ""));
  });
  return all;
}

}  // namespace lathe::llm::jinja
