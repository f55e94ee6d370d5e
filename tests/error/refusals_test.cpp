// The text of every refusal, against refusals.txt. docs/reference/errors.md is made from that file, so what
// the page shows is what a user sees.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <set>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "error/refusals.h"
#include "test_folders.h"

namespace lathe::test {
namespace {

const std::string kFile = LATHE_SOURCE_DIR "/tests/error/refusals.txt";

// Places of this machine and lines of this tree are not part of a text.
std::string general(std::string text) {
  static const std::pair<std::regex, const char*> kRules[] = {
      {std::regex(R"(/[\w./-]*lathe-error-\w+)"), "FOLDER"},
      {std::regex(R"([\w./-]+\.(cpp|h|py):\d+)"), "FILE:LINE"},
      {std::regex(R"((planned: ).*)"), "$1..."},
      {std::regex(R"(\n +[\d.]+ \wi?B at +\d+  steps.*)"), ""},
      {std::regex(R"((targets of NULL are |the flags are ).*)"), "$1..."},
      {std::regex(R"([0-9a-f]{16,})"), "HASH"},
  };
  for (const auto& [pattern, with] : kRules) text = std::regex_replace(text, pattern, with);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string text_of(const Refusal& r) {
  return fmt::format("## {}\n{}\n{}\n", r.id, r.when, general(r.provoke()));
}

TEST(Refusals, HaveTheTextsOfTheFile) {
  std::string text, section;
  const std::string file = read_file(kFile).value_or("");
  const bool update = std::getenv("UPDATE_GOLDEN") != nullptr;
  for (const Refusal& r : refusals()) {
    if (r.section != section)
      text += fmt::format("{}# {}\n\n", text.empty() ? "" : "\n", section = r.section);
    else
      text += "\n";
    const std::string now = text_of(r);
    text += now;
    // Only the one that differs is shown.
    std::size_t at = file.find(fmt::format("## {}\n", r.id));
    std::size_t end = at == std::string::npos ? at : file.find("\n#", at);
    if (!update) {
      EXPECT_EQ(now,
                at == std::string::npos ? "" : file.substr(at, end == std::string::npos ? end : end - at))
          << "if the change is meant: make golden, make docs, and review the diff";
    }
  }
  if (update) write_file_atomic(kFile, text);
  if (HasFailure() || update) return;
  EXPECT_TRUE(text == file) << "rows were taken out or moved: make golden";
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
