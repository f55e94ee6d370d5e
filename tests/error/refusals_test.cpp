// The text of every refusal, against refusals.txt. docs/reference/errors.md is made from that file, so what
// the page shows is what a user sees.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <set>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "error/refusals.h"

namespace lathe::test {
namespace {

const std::string kFile = LATHE_SOURCE_DIR "/tests/error/refusals.txt";

// Places of this machine and lines of this tree are not part of a text.
std::string general(std::string text) {
  static const std::pair<std::regex, const char*> kRules[] = {
      {std::regex(R"(/[\w./-]*lathe-error-\w+)"), "FOLDER"},
      {std::regex(R"([\w./-]+\.(cpp|h|py):\d+)"), "FILE:LINE"},
      {std::regex(R"((targets of NULL are |the flags are ).*)"), "$1..."},
      {std::regex(R"([0-9a-f]{16,})"), "HASH"},
  };
  for (const auto& [pattern, with] : kRules) text = std::regex_replace(text, pattern, with);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string all_texts() {
  std::string out, section;
  for (const Refusal& r : refusals()) {
    if (r.section != section) out += fmt::format("# {}\n\n", section = r.section);
    out += fmt::format("## {}\n{}\n{}\n\n", r.id, r.when, general(r.provoke()));
  }
  out.pop_back();
  return out;
}

TEST(Refusals, HaveTheTextsOfTheFile) {
  std::string text = all_texts();
  if (std::getenv("UPDATE_GOLDEN") != nullptr) write_file_atomic(kFile, text);
  EXPECT_EQ(text, read_file(kFile).value_or(""))
      << "if the change is meant: make golden, make docs, and review the diff";
}

TEST(Refusals, AreKnownByOneNameEach) {
  std::set<std::string> ids;
  for (const Refusal& r : refusals()) EXPECT_TRUE(ids.insert(r.id).second) << r.id;
}

// Lower case, one sentence, no full stop: "lathe: matmul: inner sizes differ: ...".
TEST(Refusals, ReadAsTheStyleGuideSays) {
  for (const Refusal& r : refusals()) {
    std::string text = general(r.provoke());
    if (text.starts_with("warning")) continue;  // written once in a process
    std::string line = text.substr(text.find('\n') + 1);
    line = line.substr(0, line.find('\n'));
    EXPECT_TRUE(line.starts_with("lathe")) << r.id << ": " << line;
    EXPECT_FALSE(line.ends_with('.')) << r.id << ": " << line;
    EXPECT_EQ(text.find("nothing was refused"), std::string::npos) << r.id;
    EXPECT_EQ(text.find("not an error of Lathe"), std::string::npos) << r.id;
  }
}

}  // namespace
}  // namespace lathe::test
