// Kernels after options and as programs, for named targets: the worked examples as files. `make golden`
// rewrites them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "codegen/codegen.h"
#include "codegen/kernels.h"
#include "ir/text.h"

namespace lathe::test {
namespace {

void expect_golden(const std::string& name, const std::string& text) {
  std::string path = LATHE_SOURCE_DIR "/tests/codegen/golden/" + name;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path << " is missing: make golden writes it";
  std::stringstream want;
  want << file.rdbuf();
  EXPECT_EQ(text, want.str()) << path << " differs: if the change is meant, make golden and review the diff";
}

void check(const std::string& name, Node kernel, const char* opts, const char* target) {
  Target t = named_target(target);
  std::vector<Opt> list = parse_opts(opts);
  std::string head = "# " + name + " for " + target + ": " + opts + "\n";
  expect_golden(name + "." + target + ".kernel.txt", head + print_graph(apply_options(kernel, list, t)));
  expect_golden(name + "." + target + ".program.txt",
                head + print_program(lower_kernel(kernel, list, t, "k")));
}

TEST(Golden, TheWorkedMatrixProduct) {
  Scope scope;
  check("matmul", matmul(26, 128, 20),
        "UPCAST(0, 6) UPCAST(1, 16) THREAD(1, 2) TILE(2, 2, 1) TILE(4, 8, 2) STAGE(2, 0, 0) TILE(3, 2, 3) "
        "STAGE(3, 1, 0) "
        "SWAP(4, 5)",
        "x86-64-v3");
  check("matmul", matmul(58, 256, 20),
        "UPCAST(0, 14) UPCAST(1, 32) THREAD(1, 2) TILE(2, 2, 1) TILE(4, 8, 2) STAGE(2, 0, 0) TILE(3, 2, 3) "
        "STAGE(3, 1, 0) SWAP(4, 5)",
        "x86-64-v4");
}

TEST(Golden, AGroupedReduceInsideAReduce) {
  Scope scope;
  check("masked_reduce", masked_reduce_in_reduce(16, 25, 25), "GROUPTOP(1, 16)", "sm_90a");
}

TEST(Golden, ARaggedSum) {
  Scope scope;
  check("ragged_sum", ragged_sum(7, 12), "UNROLL(0, 4)", "x86-64-v3");
}

TEST(Golden, ARowMaximumAlongLanes) {
  Scope scope;
  check("row_max", row_max(6, 17), "UNROLL(0, 8)", "x86-64-v3");
}

}  // namespace
}  // namespace lathe::test
