// Every step by examples in text files (example.h). `make golden` writes what is expected anew.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "codegen/codegen.h"
#include "ir/node.h"
#include "passes/example.h"
#include "schedule/schedule.h"
#include "test_folders.h"

namespace lathe::test {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = LATHE_SOURCE_DIR "/tests/passes/";

std::vector<StepInfo> steps() {
  std::vector<StepInfo> out = schedule_steps();
  for (const StepInfo& step : option_steps()) out.push_back(step);
  for (const StepInfo& step : lower_steps()) out.push_back(step);
  return out;
}

std::vector<fs::path> examples_of(const std::string& step) {
  std::vector<fs::path> out;
  if (!fs::exists(kFolder + step)) return out;
  for (const auto& file : fs::directory_iterator(kFolder + step))
    if (file.path().extension() == ".lathe") out.push_back(file.path());
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Passes, EachStepGivesWhatItsExamplesSay) {
  for (const StepInfo& step : steps())
    for (const fs::path& path : examples_of(step.name)) {
      SCOPED_TRACE(path.string());
      const Scope scope;
      Example example = parse_example(*read_file(path.string()));
      const std::string out = after_step(step.name, example);
      if (std::getenv("UPDATE_GOLDEN") != nullptr) {
        example.out = out;
        write_file_atomic(path.string(), print_example(example));
      }
      EXPECT_EQ(out, example.out) << "if the change is meant, make golden and review the diff";
    }
}

// Steps after which a graph has another form change every graph.
bool always_changes(const std::string& step) {
  return step == "plan_kernels" || step == "number_buffers" || step == "linearize";
}

TEST(Passes, EachStepHasExamplesThatItChangesAndOneThatItDoesNot) {
  for (const StepInfo& step : steps()) {
    int changed = 0, same = 0;
    for (const fs::path& path : examples_of(step.name))
      ++(parse_example(*read_file(path.string())).out == kUnchanged ? same : changed);
    EXPECT_GE(changed, 1) << step.name;
    EXPECT_GE(same, always_changes(step.name) ? 0 : 1) << step.name;
    EXPECT_GE(changed + same, 2) << step.name;
  }
}

}  // namespace
}  // namespace lathe::test
