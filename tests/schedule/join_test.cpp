// Kernels with several stores: what is joined, and what must not be.
#include <gtest/gtest.h>

#include "evaluate.h"
#include "graphs.h"
#include "ir/ranges.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "schedule/schedule.h"

namespace lathe {
namespace {

using namespace test;

Node real(double v) { return float_const(dtypes::Float32, v); }
Node assign(Node memory, Node value) {
  Node effect = intern(Op::Store, dtypes::Void, {memory, value});
  return after(memory, {&effect, 1});
}
Schedule checked(std::span<const Node> targets, const ScheduleOptions& options = {}) {
  Schedule s = schedule(targets, options);
  for (const Step& step : s.steps)
    if (!step.is_copy()) check_kernel(step.ast, "schedule");
  return s;
}

TEST(Join, AnAdamStepIsOneKernelWithThreeStores) {
  Scope scope;
  Node g = f32_buffer(300), m = f32_buffer(300), v = f32_buffer(300), w = f32_buffer(300);
  Node m1 = assign(m, m * real(0.9) + g * real(0.1)), v1 = assign(v, v * real(0.99) + g * g * real(0.01));
  Node w1 = assign(w, w - m1 / (apply(Op::Sqrt, v1) + real(1e-8)));
  Node targets[] = {w1, m1, v1};
  Schedule s = checked(targets);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Store), 3);
  EXPECT_EQ(count(s.steps[0].ast, Op::Load), 4);  // g, m, v, w: once each
  EXPECT_EQ(s.steps[0].buffers.size(), 4u);
}

TEST(Join, AReaderOfTheOldVersionAndItsStoreAreOneKernelWhereTheIndexIsTheSame) {
  Scope scope;
  Node x = f32_buffer(8), y = x * real(2), next = assign(x, x + real(1));
  Node targets[] = {next, y};
  Schedule s = checked(targets);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Store), 2);
  EXPECT_EQ(count(s.steps[0].ast, Op::Load), 1);
}

TEST(Join, TwoSumsOverTheSameElementsAreOnePass) {
  Scope scope;
  Node x = input({96, 512});
  Node targets[] = {sum(x, {1}), sum(x * x, {1})};
  Schedule s = checked(targets);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Load), 1);
  EXPECT_EQ(count(s.steps[0].ast, Op::Reduce), 2);
  EXPECT_EQ(all_ranges(s.steps[0].ast).size(), 2u);
}

TEST(Join, AValueThatOnlyItsOwnKernelReadsIsNotStored) {
  Scope scope;
  Node x = input({96, 512}), a = contiguous(x * real(3)), y = a + real(1), z = a * a;
  Node targets[] = {y, z};
  Schedule s = checked(targets);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Store), 2);
  Node with_a[] = {y, z, a};
  Schedule kept = checked(with_a);
  ASSERT_EQ(kept.steps.size(), 1u);
  EXPECT_EQ(count(kept.steps[0].ast, Op::Store), 3);
}

TEST(Join, AConsumerThatReadsAtAnotherIndexStaysApart) {
  Scope scope;
  Node x = input({96, 96}), a = contiguous(x * real(3));
  Node targets[] = {a, a + swap_axes(a, {1, 0})};
  EXPECT_EQ(checked(targets).steps.size(), 2u);
}

// b reads a elsewhere, c reads a in place and b: c cannot run with a, because b stands between.
TEST(Join, NoKernelWaitsForItself) {
  Scope scope;
  Node x = input({96, 96}), a = contiguous(x * real(3)), b = contiguous(swap_axes(a, {1, 0}) * real(5));
  Node targets[] = {a, b, a * b};
  Schedule s = checked(targets);
  ASSERT_EQ(s.steps.size(), 2u);
  EXPECT_EQ(count(s.steps[1].ast, Op::Store), 2);
}

TEST(Join, AMatrixProductIsLeftAlone) {
  Scope scope;
  Node p = matmul(input({64, 64}), input({64, 64}), 64, 64, 64);
  Node targets[] = {p, p * real(2)};
  Schedule s = checked(targets);
  ASSERT_EQ(s.steps.size(), 2u);
  for (const Step& step : s.steps) EXPECT_EQ(count(step.ast, Op::Store), 1);
}

TEST(Join, TheDevicesLimitOfBuffersHolds) {
  Scope scope;
  Node x = f32_buffer(4096);
  std::vector<Node> targets;
  for (int i = 0; i < 40; ++i) targets.push_back(x * f32_buffer(4096));
  for (int limit : {3, 8, 31}) {
    Schedule s = checked(targets, {.max_buffers = limit});
    for (const Step& step : s.steps) EXPECT_LE(static_cast<int>(step.buffers.size()), limit);
  }
}

TEST(Join, SmallUnrelatedKernelsOverTheSameRangesStartTogether) {
  Scope scope;
  std::vector<Node> targets;
  for (int i = 0; i < 8; ++i) {
    Node counter = f32_buffer(1);
    targets.push_back(assign(counter, counter + real(1)));
  }
  Schedule s = checked(targets);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Store), 8);
}

TEST(Join, EqualLayersAreStillEqualKernels) {
  Scope scope;
  std::vector<Node> targets;
  for (int i = 0; i < 5; ++i) {
    Node g = f32_buffer(5000), m = f32_buffer(5000), w = f32_buffer(5000);
    Node m1 = assign(m, m * real(0.9) + g);
    targets.push_back(m1);
    targets.push_back(assign(w, w - m1));
  }
  Schedule s = checked(targets);
  ASSERT_EQ(s.steps.size(), 5u);
  for (const Step& step : s.steps) EXPECT_EQ(step.ast.node(), s.steps[0].ast.node());
}

// Two stores that make one version: what stands at a place is the value of the last of them.
TEST(Join, AVersionMadeByTwoStoresIsReadFromMemory) {
  Scope scope;
  Node x = f32_buffer(4096), y = f32_buffer(4096);
  Node effects[] = {intern(Op::Store, dtypes::Void, {x, y}),
                    intern(Op::Store, dtypes::Void, {x, y + real(1)})};
  Node both = after(x, effects);
  Node targets[] = {both, both * real(2)};
  Schedule s = schedule(targets);
  EXPECT_GE(s.steps.size(), 2u);
}

}  // namespace
}  // namespace lathe
