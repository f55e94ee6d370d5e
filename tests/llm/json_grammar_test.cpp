// Grammars of JSON: what they let through is JSON of the schema, and what is such JSON they let through.
#include "apps/llm/json_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "lathe/error.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::ordered_json;

bool fits(const JsonGrammar& json, std::string_view text) {
  Reader reader(json.grammar, json.start);
  Reading reading = reader.begin();
  for (const char c : text) reading = reader.after(reading, static_cast<unsigned char>(c));
  return Reader::complete(reading);
}

struct Case {
  const char* schema;
  std::vector<const char*> yes, no;
};

const Case kCases[] = {
    {R"({"type": "string"})",
     {R"("")", R"("a b")", R"("\n\"\\\/")", R"("\u00e9")", R"("\ud7ff")", "\"\xc3\xb6\xf0\x9f\x99\x82\""},
     {"", "\"", "\"\n\"", R"("\x")", R"("\ud800")", "\"\xc3\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
      "\"\xff\"", "a"}},
    {R"({"type": "string", "minLength": 1, "maxLength": 2})",
     {R"("a")", "\"\xc3\xb6\\n\""},
     {R"("")", R"("abc")"}},
    {R"({"type": "integer"})",
     {"0", "-7", "123456789"},
     {"01", "1.0", "-", "+1", "1e3", "12345678901234567"}},
    {R"({"type": "number"})", {"0", "-0.5", "1e9", "12.25E-10"}, {".5", "1.", "1e", "NaN"}},
    {R"({"type": ["boolean", "null"]})", {"true", "false", "null"}, {"True", "nul", "0"}},
    {R"({"enum": ["a", "ab", 1, {"x": [1]}]})",
     {R"("a")", R"("ab")", "1", R"({"x":[1]})"},
     {R"("abc")", "2"}},
    {R"({"const": null})", {"null"}, {"0"}},
    {R"({"type": "array", "items": {"type": "integer"}})",
     {"[]", "[ ]", "[1]", "[1, 2,3]", "[\n  1,\n  2\n]"},
     {"[1,]", "[,1]", "[1 2]", "[true]"}},
    {R"({"type": "array", "minItems": 2, "maxItems": 3})",
     {"[1,{}]", "[1,2,[]]"},
     {"[]", "[1]", "[1,2,3,4]"}},
    {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
    {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}]})",
     {R"([1, "a"])"},
     {"[1]", R"([1,"a",2])"}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}, "c": {"type": "null"}}, "required": ["b"]})",
     {R"({"b": 1})", R"({"a":1,"b":[{}]})", R"({"a": 1, "b": "x", "c": null})", R"({"b":1,"c":null})"},
     {"{}", R"({"a":1})", R"({"b":1,"a":1})", R"({"b":1,})", R"({,"b":1})", R"({"b":1,"d":2})"}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}}})",
     {"{}", "{ }", R"({"a": 1})"},
     {R"({"a": "x"})"}},
    {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
     {"{}", R"({"x": 1, "y": 2})"},
     {R"({"x": "1"})"}},
    {R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"x": 1})"}},
    {R"({"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/t"}], "$defs": {"t": {"type": "array", "items": {"$ref": "#"}}}})",
     {"1", "[]", "[1, [2, []]]"},
     {R"("x")", "[true]", "[[1]"}},
    {R"({"title": "t", "description": "d"})", {"1", "{}", R"([null, {"a": [1.5]}])"}, {"x", "{]"}},
};

TEST(JsonGrammar, SchemasLetThroughWhatTheySay) {
  for (const Case& c : kCases) {
    const JsonGrammar grammar = json_schema_grammar(c.schema);
    for (const char* text : c.yes) EXPECT_TRUE(fits(grammar, text)) << c.schema << ": " << text;
    for (const char* text : c.no) EXPECT_FALSE(fits(grammar, text)) << c.schema << ": " << text;
  }
}

TEST(JsonGrammar, WhatAGrammarCannotKeepIsRefused) {
  for (const auto& [schema, what] : std::vector<std::pair<std::string, std::string>>{
           {"{", "not JSON"},
           {"3", "a schema is an object"},
           {R"({"type": "string", "pattern": "a"})", "\"pattern\" is not supported"},
           {R"({"type": "integer", "minimum": 3})", "\"minimum\" is not supported"},
           {R"({"type": "thing"})", "is not a type"},
           {R"({"enum": []})", "not a list of values"},
           {R"({"$ref": "http://a/b"})", "outside of the schema"},
           {R"({"$ref": "#/nowhere"})", "not there"},
           {R"({"$ref": "#"})", "itself"},
           {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "refers to itself"},
           {R"({"type": "object", "properties": {}, "required": ["a"]})", "is not a property"},
           {R"({"type": "array", "minItems": 3, "maxItems": 2})", "more than"},
           {R"({"type": "string", "maxLength": 100000})", "not 0 to"}}) {
    try {
      json_schema_grammar(schema);
      ADD_FAILURE() << schema << " was taken";
    } catch (const UserError& error) {
      EXPECT_NE(error.message().find(what), std::string::npos) << schema << ": " << error.message();
    }
  }
}

Json random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 3 ? 5 : 7)) {
    case 0: return nullptr;
    case 1: return random() % 2 == 0;
    case 2: return static_cast<std::int64_t>(random()) - (1LL << 31);
    case 3: return static_cast<double>(random() % 1000) / 8;
    case 4: {
      const std::vector<std::string> parts{"a", "\"", "\\", "\n", "ö", "🙂", "\x01", " "};
      std::string text;
      for (std::size_t i = random() % 5; i > 0; --i) text += parts[random() % parts.size()];
      return text;
    }
    case 5: {
      Json list = Json::array();
      for (std::size_t i = random() % 4; i > 0; --i) list.push_back(random_value(random, depth + 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (std::size_t i = random() % 4; i > 0; --i)
        object["k" + std::to_string(i)] = random_value(random, depth + 1);
      return object;
    }
  }
}

TEST(JsonGrammar, AnyObjectIsWhatAParserTakes) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const JsonGrammar grammar = json_object_grammar();
  for (int round = 0; round < 300; ++round) {
    Json object = Json::object();
    for (std::size_t i = random() % 4; i > 0; --i) object["k" + std::to_string(i)] = random_value(random, 0);
    std::string text = object.dump(random() % 2 == 0 ? -1 : 2);
    ASSERT_TRUE(fits(grammar, text)) << text;
    // Whatever a damaged text is, the grammar lets no more through than the parser.
    for (int i = 0; i < 10; ++i) {
      std::string damaged = text;
      const std::size_t at = random() % damaged.size();
      if (random() % 2 == 0)
        damaged.erase(at, 1);
      else
        damaged[at] = "{}[]\",:0a \\\x80"[random() % 12];
      if (fits(grammar, damaged)) {
        ASSERT_TRUE(Json::parse(damaged, nullptr, false).is_object()) << damaged;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::llm
