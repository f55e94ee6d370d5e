// Templates in the style of published ones and single expressions, against the texts that jinja2 makes of
// them (tests/llm/chat_templates/expect.py writes those; tests/python/test_llm.py makes them again).
#include "lathe/llm/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lathe/error.h"
#include "test_folders.h"
#include "tests/llm/data.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path kFolder = std::filesystem::path(LATHE_SOURCE_DIR) / "tests/llm/chat_templates";
constexpr std::time_t kNow = 1700000000;

void expect_text(const std::string& source, const Json& variables, const Json& wanted) {
  std::string got, refusal;
  try {
    got = ChatTemplate(source).render(variables.dump(), kNow);
  } catch (const UserError& error) {
    refusal = error.message();
  }
  if (wanted.is_null()) {
    EXPECT_TRUE(refusal.starts_with("line ")) << source << "\ngave \"" << got << "\" " << refusal;
  } else {
    EXPECT_EQ(got, wanted.get<std::string>()) << source << "\n" << refusal;
  }
}

TEST(ChatTemplate, TextsAreThoseOfJinja2) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const Json cases = Json::parse(tests::read_file(kFolder / "cases.json"));
  const Json expected = Json::parse(tests::read_file(kFolder / "expected.json"));
  for (const auto& [name, variables] : cases.at("templates").items()) {
    const std::string source = tests::read_file(kFolder / (name + ".jinja"));
    for (std::size_t i = 0; i < variables.size(); ++i)
      expect_text(source, variables[i], expected.at(name)[i]);
  }
  const Json& expressions = cases.at("expressions");
  for (std::size_t i = 0; i < expressions.size(); ++i)
    expect_text(expressions[i].get<std::string>(), cases.at("variables"), expected.at("expressions")[i]);
}

TEST(ChatTemplate, MessagesAreRenderedWithTheirTokens) {
  const ChatTemplate t(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  const std::vector<ChatMessage> messages{{"user", "a \"b\"\n"}, {"assistant", "ü"}};
  EXPECT_EQ(t.render(messages, {.begin = "[", .end = "]"}), "[<user>a \"b\"\n]<assistant>ü]<assistant>");
  EXPECT_EQ(t.render(messages, {.add_generation_prompt = false}), "<user>a \"b\"\n<assistant>ü");
}

TEST(ChatTemplate, RefusalsNameTheLine) {
  const auto refusal = [](const std::string& source, const std::string& variables = "{}") {
    try {
      return "taken: " + ChatTemplate(source).render(variables);
    } catch (const UserError& error) {
      return error.message();
    }
  };
  EXPECT_EQ(refusal("a\n{% if x %}"), "line 2: the template ends where '{% endif %}' is needed");
  EXPECT_EQ(refusal("{% for x of y %}"), "line 1: 'in' is needed before 'of'");
  EXPECT_EQ(refusal("\n\n{{ 1 + }}"), "line 3: a value is needed before '}}'");
  EXPECT_EQ(refusal("{{ 'abc }}"), "line 1: a string has no end: ' is missing");
  EXPECT_EQ(refusal("{% include 'x' %}"), "line 1: 'include' is not supported in chat templates");
  EXPECT_EQ(refusal("{% frob %}"), "line 1: unknown statement 'frob'");
  EXPECT_EQ(refusal("x\n{{ nothing.here }}"), "line 2: 'nothing' is undefined");
  EXPECT_EQ(refusal("x\n{{ a.b.c }}", R"({"a": {}})"), "line 2: 'b' of a dict is undefined");
  EXPECT_EQ(refusal("{{ 1 | frob }}"), "line 1: there is no filter 'frob'");
  EXPECT_EQ(refusal("{{ 1 is frob }}"), "line 1: there is no test 'frob'");
  EXPECT_EQ(refusal("{{ raise_exception('not like this') }}"), "line 1: not like this");
  EXPECT_EQ(refusal("{{ 'a' * 1000000000000 }}"), "line 1: a repetition is too long");
  EXPECT_EQ(refusal("{{ range(10000000) }}"), "line 1: a range has more than 100000 numbers");
  EXPECT_EQ(refusal("{{ 9223372036854775807 + 1 }}"), "line 1: a number is out of the range of 64 bits");
  EXPECT_EQ(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
            "line 1: macros call each other too deeply");
  EXPECT_EQ(refusal("{{ " + std::string(5000, '(') + std::string(5000, ')') + " }}"),
            "line 1: the template is nested too deeply");
  EXPECT_EQ(refusal("{{ x }}", "[1]"), "the variables are no JSON object");
}

}  // namespace
}  // namespace lathe::llm
