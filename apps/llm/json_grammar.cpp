#include "apps/llm/json_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/error.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostRepeats = 1000;  // rules are made for each
constexpr int kMostDigits = 15, kMostBlanks = 16, kDeepestSchema = 64;

[[noreturn]] void refuse(const std::string& message) { throw UserError("json_schema", message); }

// Words that say nothing about the text, and those that a schema is made of.
constexpr std::string_view kNotes[] = {"title",    "description", "default",  "examples",
                                       "$schema",  "$id",         "$comment", "deprecated",
                                       "readOnly", "writeOnly",   "$defs",    "definitions"};
constexpr std::string_view kWords[] = {"type",     "properties", "required",  "additionalProperties",
                                       "enum",     "const",      "anyOf",     "oneOf",
                                       "allOf",    "$ref",       "items",     "prefixItems",
                                       "minItems", "maxItems",   "minLength", "maxLength"};

class Builder {
 public:
  Grammar g;

  std::size_t rule(std::initializer_list<Sequence> alternatives) {
    const std::size_t r = g.add_rule();
    for (const Sequence& a : alternatives) g.add(r, a);
    return r;
  }
  static Sequence joined(std::initializer_list<Sequence> parts) {
    Sequence out;
    for (const Sequence& part : parts) out.insert(out.end(), part.begin(), part.end());
    return out;
  }
  static Sequence one(std::size_t rule) { return {Grammar::rule(rule)}; }
  static Sequence one(Symbol symbol) { return {symbol}; }

  // ---- the parts of JSON

  // Blanks between two tokens: nothing, a space, or a line break with some indent. Without a bound a model
  // could write them for ever.
  std::size_t blanks() {
    if (blanks_ != 0) return blanks_;
    std::size_t indent = rule({{}});
    ByteSet blank;
    blank.set(' ');
    blank.set('\t');
    for (int i = 0; i < kMostBlanks; ++i) indent = rule({{}, joined({one(g.bytes(blank)), one(indent)})});
    return blanks_ = rule({{}, g.text(" "), joined({g.text("\n"), one(indent)})});
  }

  Symbol digit() { return g.range('0', '9'); }

  std::size_t digits(int least) {
    std::size_t more = rule({{}});
    for (int i = 1; i < kMostDigits; ++i) more = rule({{}, {digit(), Grammar::rule(more)}});
    return least == 0 ? more : rule({{digit(), Grammar::rule(more)}});
  }

  std::size_t integer() {
    if (integer_ != 0) return integer_;
    const std::size_t size = rule({g.text("0"), {g.range('1', '9'), Grammar::rule(digits(0))}});
    return integer_ = rule({one(size), joined({g.text("-"), one(size)})});
  }

  std::size_t number() {
    if (number_ != 0) return number_;
    const std::size_t fraction = rule({{}, joined({g.text("."), one(digits(1))})});
    ByteSet e, sign;
    e.set('e');
    e.set('E');
    sign.set('+');
    sign.set('-');
    const std::size_t power = rule({{digit()}, {digit(), digit()}});
    const std::size_t exponent = rule({{},
                                       joined({one(g.bytes(e)), one(power)}),
                                       joined({one(g.bytes(e)), one(g.bytes(sign)), one(power)})});
    return number_ = rule({joined({one(integer()), one(fraction), one(exponent)})});
  }

  // One character of a string: UTF-8 without surrogates and overlong forms, or an escape.
  std::size_t character() {
    if (character_ != 0) return character_;
    ByteSet plain, escape, hex, high_digit;
    for (unsigned b = 0x20; b < 0x80; ++b) plain.set(b);
    plain.reset('"');
    plain.reset('\\');
    for (const char c : std::string_view("\"\\/bfnrt")) escape.set(static_cast<unsigned char>(c));
    for (const char c : std::string_view("0123456789abcdefABCDEF")) hex.set(static_cast<unsigned char>(c));
    for (const char c : std::string_view("0123456789abcefABCEF"))
      high_digit.set(static_cast<unsigned char>(c));
    const Symbol tail = g.range(0x80, 0xbf), h = g.bytes(hex);
    return character_ = rule({{g.bytes(plain)},
                              {g.range(0xc2, 0xdf), tail},
                              {g.range(0xe0, 0xe0), g.range(0xa0, 0xbf), tail},
                              {g.range(0xe1, 0xec), tail, tail},
                              {g.range(0xed, 0xed), g.range(0x80, 0x9f), tail},
                              {g.range(0xee, 0xef), tail, tail},
                              {g.range(0xf0, 0xf0), g.range(0x90, 0xbf), tail, tail},
                              {g.range(0xf1, 0xf3), tail, tail, tail},
                              {g.range(0xf4, 0xf4), g.range(0x80, 0x8f), tail, tail},
                              joined({g.text("\\"), one(g.bytes(escape))}),
                              // \u of a surrogate would need its other half: those characters are written out
                              joined({g.text("\\u"), {g.bytes(high_digit), h, h, h}}),
                              joined({g.text("\\u"), {g.bytes(d_digit()), g.range('0', '7'), h, h}})});
  }
  static ByteSet d_digit() {
    ByteSet set;
    set.set('d');
    set.set('D');
    return set;
  }

  std::size_t string(std::int64_t least = 0, std::int64_t most = -1) {
    if (least == 0 && most < 0 && string_ != 0) return string_;
    const std::size_t made =
        rule({joined({g.text("\""), one(repeated(character(), least, most)), g.text("\"")})});
    if (least == 0 && most < 0) string_ = made;
    return made;
  }

  // `item` as many times; `most` below 0 is any number.
  std::size_t repeated(std::size_t item, std::int64_t least, std::int64_t most) {
    std::size_t rest = g.add_rule();
    g.add(rest, {});
    if (most < 0) g.add(rest, {Grammar::rule(item), Grammar::rule(rest)});
    for (std::int64_t i = least; i < most; ++i) rest = rule({{}, {Grammar::rule(item), Grammar::rule(rest)}});
    for (std::int64_t i = 0; i < least; ++i) rest = rule({{Grammar::rule(item), Grammar::rule(rest)}});
    return rest;
  }

  std::size_t value() {
    if (value_ != 0) return value_;
    value_ = g.add_rule();
    const std::size_t any_object = object(), any_array = array(value_, 0, -1);
    for (const std::size_t r : {any_object, any_array, string(), number()}) g.add(value_, one(r));
    for (const char* word : {"true", "false", "null"}) g.add(value_, g.text(word));
    return value_;
  }

  // An object of any members whose values are of this rule.
  std::size_t object_of(std::size_t member_value) {
    const std::size_t member = rule({joined({one(string()), colon(), one(member_value)})});
    return rule({joined({g.text("{"), one(listed(member, 0, -1)), g.text("}")})});
  }
  std::size_t object() { return object_ != 0 ? object_ : object_ = object_of(value()); }

  std::size_t array(std::size_t item, std::int64_t least, std::int64_t most) {
    return rule({joined({g.text("["), one(listed(item, least, most)), g.text("]")})});
  }

  Sequence colon() { return joined({g.text(":"), one(rule({{}, g.text(" ")}))}); }
  Sequence comma() { return joined({g.text(","), one(blanks())}); }

  // Items with commas between and blanks around.
  std::size_t listed(std::size_t item, std::int64_t least, std::int64_t most) {
    const std::size_t next = rule({joined({comma(), one(item)})});
    const std::size_t some = rule({});
    if (most != 0)
      g.add(some, joined({one(blanks()), one(item),
                          one(repeated(next, std::max<std::int64_t>(least - 1, 0), most < 0 ? -1 : most - 1)),
                          one(blanks())}));
    return least > 0 ? some : rule({one(some), one(blanks())});
  }

 private:
  std::size_t blanks_ = 0, integer_ = 0, number_ = 0, character_ = 0, string_ = 0, value_ = 0, object_ = 0;
};

class SchemaBuilder {
 public:
  explicit SchemaBuilder(const Json& root) : root_(root) {
    b_.g.add_rule();  // rule 0 is unused: 0 means "not made yet"
  }

  JsonGrammar run() {
    const std::size_t start = schema(root_, 0);
    return {std::move(b_.g), start};
  }

 private:
  static void check_words(const Json& s) {
    for (const auto& [word, value] : s.items()) {
      const auto is = [&word = word](std::string_view known) { return known == word; };
      if (std::none_of(std::begin(kNotes), std::end(kNotes), is) &&
          std::none_of(std::begin(kWords), std::end(kWords), is))
        refuse(fmt::format("\"{}\" is not supported in a schema", word));
    }
  }

  std::size_t schema(const Json& s, int depth) {
    if (depth > kDeepestSchema) refuse("the schema is nested too deeply");
    if (s.is_boolean() && s.get<bool>()) return b_.value();
    if (!s.is_object()) refuse("a schema is an object");
    check_words(s);
    if (s.contains("$ref")) return reference(s.at("$ref"), depth);
    if (s.contains("const")) return b_.rule({b_.g.text(s.at("const").dump())});
    if (s.contains("enum")) return choice(s.at("enum"));
    for (const char* word : {"anyOf", "oneOf", "allOf"})
      if (s.contains(word)) return alternatives(s.at(word), word, depth);
    if (!s.contains("type")) {
      if (s.contains("properties")) return object(s, depth);
      if (s.contains("items") || s.contains("prefixItems")) return array(s, depth);
      return b_.value();
    }
    if (!s.at("type").is_array()) return of_type(s, s.at("type"), depth);
    const std::size_t any = b_.g.add_rule();
    for (const Json& type : s.at("type")) b_.g.add(any, Builder::one(of_type(s, type, depth)));
    return any;
  }

  std::size_t reference(const Json& ref, int depth) {
    if (!ref.is_string()) refuse("\"$ref\" is not a string");
    const auto path = ref.get<std::string>();
    if (const auto known = references_.find(path); known != references_.end()) return known->second;
    if (path.empty() || path[0] != '#')
      refuse(fmt::format("\"$ref\" is \"{}\", which is outside of the schema", path));
    const Json* target = nullptr;
    try {
      target = &root_.at(Json::json_pointer(path.substr(1)));
    } catch (const Json::exception&) {
      refuse(fmt::format("\"$ref\" is \"{}\", which is not there", path));
    }
    const std::size_t rule = b_.g.add_rule();
    references_.emplace(path, rule);
    if (target->is_object() && target->contains("$ref") && target->at("$ref") == ref)
      refuse(fmt::format("\"$ref\" is \"{}\", which is itself", path));
    const std::size_t meant = schema(*target, depth + 1);
    if (meant == rule) refuse(fmt::format("\"$ref\" is \"{}\", which is itself", path));
    b_.g.add(rule, Builder::one(meant));
    check_begins(rule);
    return rule;
  }

  // A rule that can begin with itself would never be read to its end.
  void check_begins(std::size_t start) {
    std::vector<std::size_t> open{start};
    std::set<std::size_t> seen;
    while (!open.empty()) {
      const std::size_t r = open.back();
      open.pop_back();
      for (const Sequence& a : b_.g.alternatives(r)) {
        if (a.empty() || !a[0].is_rule) continue;
        if (a[0].index == start) refuse("a schema refers to itself without anything between");
        if (seen.insert(a[0].index).second) open.push_back(a[0].index);
      }
    }
  }

  std::size_t choice(const Json& values) {
    if (!values.is_array() || values.empty()) refuse("\"enum\" is not a list of values");
    const std::size_t any = b_.g.add_rule();
    for (const Json& v : values) b_.g.add(any, b_.g.text(v.dump()));
    return any;
  }

  std::size_t alternatives(const Json& schemas, const std::string& word, int depth) {
    if (!schemas.is_array() || schemas.empty()) refuse(fmt::format("\"{}\" is not a list of schemas", word));
    if (word == "allOf" && schemas.size() > 1) refuse("\"allOf\" of several schemas is not supported");
    const std::size_t any = b_.g.add_rule();
    for (const Json& s : schemas) b_.g.add(any, Builder::one(schema(s, depth + 1)));
    return any;
  }

  std::size_t of_type(const Json& s, const Json& type, int depth) {
    if (type == "object") return object(s, depth);
    if (type == "array") return array(s, depth);
    if (type == "string") return b_.string(bound(s, "minLength", 0), bound(s, "maxLength", -1));
    if (type == "number") return b_.number();
    if (type == "integer") return b_.integer();
    if (type == "boolean") return b_.rule({b_.g.text("true"), b_.g.text("false")});
    if (type == "null") return b_.rule({b_.g.text("null")});
    refuse(fmt::format("{} is not a type", type.dump()));
  }

  static std::int64_t bound(const Json& s, const char* word, std::int64_t absent) {
    if (!s.contains(word)) return absent;
    const Json& v = s.at(word);
    if (!v.is_number_integer() || v.get<std::int64_t>() < 0 || v.get<std::int64_t>() > kMostRepeats)
      refuse(fmt::format("\"{}\" is {}, which is not 0 to {}", word, v.dump(), kMostRepeats));
    return v.get<std::int64_t>();
  }

  std::size_t array(const Json& s, int depth) {
    const std::int64_t least = bound(s, "minItems", 0), most = bound(s, "maxItems", -1);
    if (most >= 0 && least > most) refuse("\"minItems\" is more than \"maxItems\"");
    if (s.contains("prefixItems")) return tuple(s, depth);
    return b_.array(s.contains("items") ? schema(s.at("items"), depth + 1) : b_.value(), least, most);
  }

  // Exactly the items that are listed.
  std::size_t tuple(const Json& s, int depth) {
    if (s.contains("items") && s.at("items") != Json(false))
      refuse("\"items\" together with \"prefixItems\" is not supported");
    Sequence all = Builder::joined({b_.g.text("["), Builder::one(b_.blanks())});
    bool first = true;
    for (const Json& item : s.at("prefixItems")) {
      if (!first) all = Builder::joined({all, b_.comma()});
      first = false;
      all.push_back(Grammar::rule(schema(item, depth + 1)));
    }
    return b_.rule({Builder::joined({all, Builder::one(b_.blanks()), b_.g.text("]")})});
  }

  // The properties in the order of the schema; those that are not required may be left out.
  std::size_t object(const Json& s, int depth) {
    const Json none = Json::object();
    const Json& properties = s.contains("properties") ? s.at("properties") : none;
    if (!properties.is_object()) refuse("\"properties\" is not an object");
    const Json required = s.contains("required") ? s.at("required") : Json::array();
    for (const Json& name : required)
      if (!name.is_string() || !properties.contains(name.get<std::string>()))
        refuse(fmt::format("\"required\" has {}, which is not a property", name.dump()));
    if (properties.empty()) {
      if (!s.contains("additionalProperties")) return b_.object();
      const Json& more = s.at("additionalProperties");
      if (more == Json(false))
        return b_.rule({Builder::joined({b_.g.text("{"), Builder::one(b_.blanks()), b_.g.text("}")})});
      return b_.object_of(schema(more, depth + 1));
    }
    // From the last on: what may follow where nothing was written yet, and where something was.
    std::size_t fresh = b_.rule({Builder::one(b_.blanks())}), later = fresh;
    std::vector<std::string> names;
    for (const auto& [name, unused] : properties.items()) names.push_back(name);
    for (std::size_t i = names.size(); i-- > 0;) {
      const Sequence member = Builder::joined({b_.g.text(Json(names[i]).dump()), b_.colon(),
                                               Builder::one(schema(properties.at(names[i]), depth + 1))});
      const std::size_t first =
          b_.rule({Builder::joined({Builder::one(b_.blanks()), member, Builder::one(later)})});
      const std::size_t next = b_.rule({Builder::joined({b_.comma(), member, Builder::one(later)})});
      if (std::find(required.begin(), required.end(), Json(names[i])) == required.end()) {
        b_.g.add(first, Builder::one(fresh));
        b_.g.add(next, Builder::one(later));
      }
      fresh = first;
      later = next;
    }
    return b_.rule({Builder::joined({b_.g.text("{"), Builder::one(fresh), b_.g.text("}")})});
  }

  const Json& root_;
  Builder b_;
  std::map<std::string, std::size_t> references_;
};

}  // namespace

JsonGrammar json_object_grammar() {
  const Json any_object{{"type", "object"}};
  return SchemaBuilder(any_object).run();
}

JsonGrammar json_schema_grammar(std::string_view text) {
  const Json schema = Json::parse(text, nullptr, false);
  if (schema.is_discarded()) refuse("the schema is not JSON");
  return SchemaBuilder(schema).run();
}

}  // namespace lathe::llm
