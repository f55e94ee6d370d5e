// Kernels after options and, where they are short, as programs, for named targets: the worked examples as
// files. What each step of lowering does is shown by tests/passes. `make golden` rewrites them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/options/option_state.h"
#include "ir/build.h"
#include "ir/text.h"
#include "support/golden.h"

namespace lathe::test {
namespace {

const std::string kFolder = "tests/codegen/golden/";

std::string head(const std::string& name, const char* opts, const char* target) {
  return "# " + name + " for " + target + ": " + opts + "\n";
}

void check_kernel(const std::string& name, Node kernel, const char* opts, const char* target) {
  expect_golden(
      kFolder + name + "." + target + ".kernel.txt",
      head(name, opts, target) + print_graph(apply_options(kernel, parse_opts(opts), named_target(target))));
}

void check(const std::string& name, Node kernel, const char* opts, const char* target) {
  check_kernel(name, kernel, opts, target);
  expect_golden(kFolder + name + "." + target + ".program.txt",
                head(name, opts, target) +
                    print_program(lower_kernel(kernel, parse_opts(opts), named_target(target), "k")));
}

// The number by which STAGE knows the load of a param.
std::int64_t value_of(Node kernel, std::int64_t slot) {
  std::vector<Node> values = stageable_values(kernel);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].is(Op::Load) && param_slot(base_memory(values[i].arg(0))) == slot)
      return static_cast<std::int64_t>(i);
  return -1;
}

// UPCAST m, UPCAST n, THREAD n 2, TILE n, TILE k, STAGE B at k0, TILE m, STAGE A at m0, SWAP m n:
// docs/options.md.
void check_worked(Node kernel, int rows, int columns, const char* target) {
  std::string opts = fmt::format(
      "UPCAST(0, {}) UPCAST(1, {}) THREAD(1, 2) TILE(2, 2, 1) TILE(4, 8, 2) STAGE(2, {}, 0) TILE(3, 2, 3) "
      "STAGE(3, {}, 0) "
      "SWAP(4, 5)",
      rows, columns, value_of(kernel, 2), value_of(kernel, 1));
  check_kernel("matmul", kernel, opts.c_str(), target);
  EXPECT_EQ(compare_with_reference(kernel, parse_opts(opts), named_target(target), 1), "");
}

TEST(Golden, TheWorkedMatrixProduct) {
  Scope scope;
  check_worked(matmul(26, 128, 20), 6, 16, "x86-64-v3");
  check_worked(matmul(58, 256, 20), 14, 32, "x86-64-v4");
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

TEST(Golden, ASoftmaxOfRows) {
  Scope scope;
  check("softmax_rows", softmax_rows(6, 16), "UPCAST(2, 8) UPCAST(1, 8) UNROLL(0, 8) UNROLL(1, 8)",
        "x86-64-v3");
}

TEST(Golden, AttentionWithTheOutputBelowTheLoopOfTheKeys) {
  Scope scope;
  check_kernel("attention", attention(4, 3, 8, 16), "UNROLL(4, 8) UPCAST(3, 8) UPCAST(1, 8) UNROLL(1, 8)",
               "x86-64-v3");
}

}  // namespace
}  // namespace lathe::test
