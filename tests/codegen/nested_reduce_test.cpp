// R22: reduces inside of reduces, one of them spread over a group of threads, in any order of threads.
// Counting finds the gather Y[index], so that what comes out is known without evaluating the kernel. REF
// reports threads that miss a barrier, and reads of what another thread may not have written yet.
#include <gtest/gtest.h>

#include <random>

#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "ir/text.h"
#include "reference/reference.h"

namespace lathe::test {
namespace {

using reference::Array;

struct Nest {
  Node kernel;
  std::int64_t rows, columns;
};

// Runs the program on REF with the seed's order of threads; what differs from the gather, or nothing.
std::string differs_from_gather(const Nest& nest, const Program& program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Array> arrays;
  arrays.emplace_back(dtypes::UInt8, nest.rows);
  arrays.emplace_back(dtypes::UInt8, nest.columns);
  arrays.emplace_back(dtypes::Int32, nest.rows);
  for (std::int64_t j = 0; j < nest.columns; ++j)
    arrays[1].set(j, {static_cast<std::int64_t>(random() % 256), 0});
  for (std::int64_t i = 0; i < nest.rows; ++i)
    arrays[2].set(i, {static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(nest.columns)), 0});
  const reference::View views[] = {arrays[0].view(), arrays[1].view(), arrays[2].view()};
  const reference::EvalReport report = reference::program_eval(program, views, {}, {.seed = seed});
  if (!report.ok() || report.sampled) return report.faults.empty() ? "incomplete" : report.faults[0];
  for (std::int64_t i = 0; i < nest.rows; ++i)
    if (const std::int64_t want = arrays[1].at(arrays[2].at(i).i).i; arrays[0].at(i).i != want)
      return "row " + std::to_string(i) + " is " + std::to_string(arrays[0].at(i).i) + ", not " +
             std::to_string(want);
  return "";
}

void expect_gathers(const Nest& nest, const char* options, const char* target, int seeds) {
  const Program program = lower_kernel(nest.kernel, parse_opts(options), named_target(target), "nest");
  for (int seed = 1; seed <= seeds; ++seed)
    EXPECT_EQ(differs_from_gather(nest, program, static_cast<std::uint64_t>(seed)), "")
        << options << " for " << target << ", seed " << seed << "\n"
        << print_program(program);
}

Nest nest(std::int64_t i, std::int64_t j, std::int64_t k) {
  return {masked_reduce_in_reduce(i, j, k), i, std::min(j, k)};
}
Nest twice(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) {
  return {masked_reduces_in_reduce(i, j, k, l), i, std::min({j, k, l})};
}

TEST(NestedReduce, AGroupedOneGathersAtFullSize) {
  Scope scope;
  expect_gathers(nest(16, 250, 250), "GROUPTOP(1, 16)", "ref", 1);
  expect_gathers(nest(16, 250, 250), "GROUPTOP(1, 16)", "sm_90a", 1);
}

TEST(NestedReduce, AGroupedOneGathersAtPrimesAndInAnyOrderOfThreads) {
  Scope scope;
  for (const char* target : {"ref", "sm_90a"}) {
    expect_gathers(nest(7, 251, 257), "GROUPTOP(1, 16)", target, 1);
    expect_gathers(nest(16, 25, 25), "GROUPTOP(1, 16)", target, 4);
    expect_gathers(nest(7, 11, 13), "GROUPTOP(1, 5) LOCAL(0, 3)", target, 4);
    expect_gathers(nest(7, 11, 13), "GROUP(1, 4) UPCAST(0, 2)", target, 4);
  }
}

TEST(NestedReduce, TwoDeepAnyOfThemMayBeGrouped) {
  Scope scope;
  for (const char* target : {"ref", "sm_90a"})
    for (const char* options : {"GROUPTOP(0, 4)", "GROUPTOP(1, 4)", "GROUPTOP(2, 4)",
                                "GROUP(2, 4) LOCAL(0, 2)", "GROUPTOP(2, 5) UPCAST(0, 2)", "GROUP(1, 3)"})
      expect_gathers(twice(5, 11, 13, 17), options, target, 3);
  expect_gathers(twice(16, 40, 40, 40), "GROUPTOP(2, 16)", "ref", 1);
}

// And before lowering: what options make of the kernel stores what the kernel as scheduled stores.
TEST(NestedReduce, KernelsWithOptionsEqualTheKernelAsScheduled) {
  Scope scope;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(compare_with_reference(masked_reduce_in_reduce(7, 11, 13),
                                     parse_opts("GROUPTOP(1, 5) LOCAL(0, 3)"), named_target("sm_90a"), seed),
              "");
    EXPECT_EQ(compare_with_reference(masked_reduces_in_reduce(3, 7, 7, 7), parse_opts("GROUPTOP(2, 4)"),
                                     named_target("ref"), seed),
              "");
  }
}

}  // namespace
}  // namespace lathe::test
