// The one list of steps, and the page that is made from it.
#include "engine/steps.h"

#include <gtest/gtest.h>

#include <set>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "engine/compile_context.h"
#include "test_folders.h"

namespace lathe::engine {
namespace {

TEST(StepList, NamesAreUniqueAndNoRuleHasThem) {
  std::set<std::string> names;
  for (const ListedStep& row : all_steps()) {
    EXPECT_TRUE(names.insert(row.step.name).second) << row.step.name;
    EXPECT_STRNE(row.step.purpose, "");
  }
  for (std::string_view rule : known_rules()) names.erase(std::string(rule));
  for (const ListedStep& row : all_steps())
    EXPECT_EQ(names.contains(row.step.name), !row.step.optional) << row.step.name;
}

TEST(StepList, ThePageOfTheDocsIsMadeFromIt) {
  const std::string page = *read_file(LATHE_SOURCE_DIR "/docs/reference/steps.md");
  std::size_t at = 0;
  for (const ListedStep& row : all_steps()) {
    const std::string line = std::string("| `") + row.step.name + "` | " + (row.step.optional ? "yes" : "") +
                             " | " + row.step.purpose + " |\n";
    at = page.find(line, at);
    ASSERT_NE(at, std::string::npos) << "missing, or in another order (make docs): " << line;
  }
  EXPECT_EQ(page.find("| `", at + 3), std::string::npos) << "rows of steps that are not there";
}

TEST(StepList, AnOptionalStepIsLeftOutByNameAndNoOtherCanBe) {
  {
    const FlagScope flag(Flag::Without, "peel_last_steps,threads");
    EXPECT_TRUE(rule_changes().disables("peel_last_steps"));
    EXPECT_TRUE(rule_changes().disables("threads"));
  }
  const FlagScope flag(Flag::Without, "expand");
  EXPECT_THROW(rule_changes(), UserError);
}

}  // namespace
}  // namespace lathe::engine
