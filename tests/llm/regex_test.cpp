// The regular expressions of tokenizers.
#include "apps/llm/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lathe/error.h"

namespace lathe::llm {
namespace {

std::vector<std::string> found(const char* pattern, std::string_view text) {
  std::vector<std::string> all;
  for (const Regex::Match& m : Regex(pattern).matches(text))
    all.emplace_back(text.substr(m.begin, m.end - m.begin));
  return all;
}

using Texts = std::vector<std::string>;

TEST(Regex, ChoosesTheFirstAlternativeThatFits) {
  EXPECT_EQ(found("ab|abc|b", "abcb"), (Texts{"ab", "b"}));
  EXPECT_EQ(found("(?:x|xy)z", "xyz xz"), (Texts{"xyz", "xz"}));
}

TEST(Regex, RepeatsAsManyTimesAsItMay) {
  EXPECT_EQ(found("a{2,3}", "aaaaaaa"), (Texts{"aaa", "aaa"}));
  EXPECT_EQ(found("a{2,}b", "aaab ab"), (Texts{"aaab"}));
  EXPECT_EQ(found("a+?b?", "aab"), (Texts{"a", "ab"}));
  EXPECT_EQ(found("a++a", "aaa"), Texts{});
  EXPECT_EQ(found("a+a", "aaa"), (Texts{"aaa"}));
  EXPECT_EQ(found("(?:ab)+", "ababa"), (Texts{"abab"}));
  EXPECT_EQ(found("x{y", "x{y"), (Texts{"x{y"}));
}

TEST(Regex, KnowsClassesOfCharacters) {
  EXPECT_EQ(found(R"(\p{L}+|\p{N}+)", "abcäö12Ⅷ"), (Texts{"abcäö", "12Ⅷ"}));
  EXPECT_EQ(found(R"([^\s\p{L}]+)", "a, b!? c"), (Texts{",", "!?"}));
  EXPECT_EQ(found("[a-cx]+", "abcdx"), (Texts{"abc", "x"}));
  EXPECT_EQ(found("[]a]+", "a]b"), (Texts{"a]"}));
  EXPECT_EQ(found("[a-]+", "a-b"), (Texts{"a-"}));
  EXPECT_EQ(found(R"([\u4E00-\u9FFF]+)", "ab漢字c"), (Texts{"漢字"}));
  EXPECT_EQ(found(R"(\P{L}+)", "ab12c"), (Texts{"12"}));
}

TEST(Regex, LooksAheadAndBehind) {
  EXPECT_EQ(found(R"(\s+(?!\S)|\s+)", "a   b  "), (Texts{"  ", " ", "  "}));
  EXPECT_EQ(found("a(?=b)", "abac"), (Texts{"a"}));
  EXPECT_EQ(found("(?<=x)a", "axa"), (Texts{"a"}));
  EXPECT_EQ(found("(?<!x)a", "axa"), (Texts{"a"}));
}

TEST(Regex, IgnoresCaseWhereItIsTold) {
  EXPECT_EQ(found("(?i:'s|'LL)x", "'Sx 'llx 'sX"), (Texts{"'Sx", "'llx"}));
}

TEST(Regex, TakesLongRunsWithoutDepth) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(found(R"(\s+(?!\S)|\s+)", spaces + "x"), (Texts{spaces.substr(1), " "}));
}

TEST(Regex, ReadsBytesThatAreNoTextOneByOne) {
  EXPECT_EQ(found("[^a]", "a\xff\xfe"), (Texts{"\xff", "\xfe"}));
}

TEST(Regex, RefusesWhatItDoesNotKnow) {
  for (const char* pattern :
       {"(a", "a)", "[a", "*a", R"(\p{Greek})", R"(\q)", "(?P<n>a)", "[a&&b]", R"(\u12)"}) {
    try {
      Regex regex(pattern);
      ADD_FAILURE() << pattern << " was taken";
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(pattern), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace lathe::llm
