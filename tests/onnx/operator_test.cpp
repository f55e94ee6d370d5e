// ONNX's own tests of its operators, run on the default device. Each is a model of one operator (or of a
// small net), inputs and expected outputs; what does not pass is a row of exceptions.txt, and a row that
// passes is an error too.
#include <algorithm>

#include "onnx/support.h"

namespace lathe::onnx {
namespace {

using test::fs::path;

std::string run_case(const path& folder, bool compare_elements) {
  try {
    Runner runner(folder / "model.onnx");
    for (const path& set : test::data_sets(folder)) {
      const Values inputs = test::load_set(set, "input", runner.summary().inputs);
      const Values expected = test::load_set(set, "output", runner.summary().outputs);
      if (expected.empty()) return "the test has no expected output";
      // The first call builds the graph, the next two capture it where that can be, and the last replays.
      for (int call = 0; call < 4; ++call)
        if (const std::string d = test::difference(runner(inputs), expected, {}, compare_elements);
            !d.empty())
          return "call " + std::to_string(call) + ": " + d;
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

class OnnxCase : public ::testing::TestWithParam<path> {};

TEST_P(OnnxCase, GivesTheExpectedOutputs) {
  const std::string name = GetParam().filename().string();
  const auto exception = test::exceptions().find(name);
  const bool random = exception != test::exceptions().end() && exception->second.kind == "random";
  const std::string problem = run_case(GetParam(), !random);
  if (exception == test::exceptions().end() || random)
    EXPECT_EQ(problem, "") << name;
  else
    EXPECT_NE(problem, "") << name << " passes: take its row out of tests/onnx/exceptions.txt";
}

std::string case_name(const ::testing::TestParamInfo<path>& info) {
  std::string name = info.param.filename().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxCase);
INSTANTIATE_TEST_SUITE_P(Node, OnnxCase, ::testing::ValuesIn(test::installed_cases("node")), case_name);
INSTANTIATE_TEST_SUITE_P(Simple, OnnxCase, ::testing::ValuesIn(test::installed_cases("simple")), case_name);
INSTANTIATE_TEST_SUITE_P(Converted, OnnxCase, ::testing::ValuesIn(test::installed_cases("pytorch-converted")),
                         case_name);
INSTANTIATE_TEST_SUITE_P(PytorchOperator, OnnxCase,
                         ::testing::ValuesIn(test::installed_cases("pytorch-operator")), case_name);

TEST(OnnxCases, AreInstalled) {
  if (test::installed_cases("node").empty())
    GTEST_SKIP() << "ONNX's tests are not here: scripts/setup.sh installs libonnx-testdata where the "
                    "distribution has it";
  EXPECT_GE(test::installed_cases("node").size(), 900u);
  const auto failing = std::count_if(test::exceptions().begin(), test::exceptions().end(),
                                     [](const auto& e) { return e.second.kind == "fails"; });
  EXPECT_LE(failing * 50, static_cast<std::int64_t>(test::installed_cases("node").size()))
      << "more than 2 % are exceptions";
}

}  // namespace
}  // namespace lathe::onnx
