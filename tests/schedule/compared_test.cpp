// Values that comparisons rely on to have the same bits wherever they are computed.
#include "schedule/compared.h"

#include <gtest/gtest.h>

#include "evaluate.h"
#include "graphs.h"
#include "schedule/schedule.h"

namespace lathe {
namespace {

using namespace test;

// Where an element is the largest of its row, as gradients of max and argmax ask.
Node hits(Node x, std::int64_t rows, std::int64_t columns) {
  return equal(x, grow(maximum(x, {1}), {rows, columns}));
}
NodeMap<char> compared(Node target) {
  const std::vector<Node> order = toposort(target);
  NodeMap<int> uses;
  for (Node n : order)
    for (Node a : n.args()) ++uses[a];
  return compared_values(order, uses);
}

TEST(Compared, AValueIsComputedOnceWhereItMeetsTheLargestOfItsColumn) {
  Scope scope;
  Node a = input({64, 3}), x = a * a + a * float_const(dtypes::Float32, 3);
  Node top = maximum(x, {0}), hit = equal(x, grow(top, {64, 3}));
  Node both[] = {top, where(hit, float_const(dtypes::Float32, 2), float_const(dtypes::Float32, 0))};
  int products = 0;
  for (const Step& step : schedule(both).steps)
    for (Node n : toposort(step.ast)) products += n.is(Op::Mul) && n.dtype().is_float();
  EXPECT_EQ(products, 2);
}

TEST(Compared, AProductRightBesideItsOnlyAdditionRoundsAlikeEverywhere) {
  Scope scope;
  Node a = input({4, 3}), b = input({4, 3}), c = input({4, 3}), d = input({4, 3});
  EXPECT_TRUE(compared(hits(a, 4, 3)).empty());
  EXPECT_TRUE(compared(hits(max(a * b, c), 4, 3)).empty());
  EXPECT_TRUE(compared(hits(a * b + c, 4, 3)).empty());
  EXPECT_TRUE(compared(hits(a * b + c * d, 4, 3)).contains(a * b + c * d))
      << "either product may be contracted";
  Node outside = grow(view(f32_buffer(4), {4, 1}) * view(f32_buffer(4), {4, 1}), {4, 3}) + c;
  EXPECT_TRUE(compared(hits(outside, 4, 3)).contains(outside)) << "the product may serve several additions";
}

TEST(Compared, AProductBehindWhatAKernelMayFoldAwayCounts) {
  Scope scope;
  Node a = input({4, 3}), b = input({4, 3}), c = input({4, 3}), zero = float_const(dtypes::Float32, 0);
  Node early = less(input({4, 3}), grow(float_const(dtypes::Float32, 2), {4, 3}));
  for (Node folded : {where(early, zero, a * b), where(early, a * b, zero), neg(a * b), contiguous(a * b),
                      where(early, zero, c) + a * b}) {
    Node x = folded + c;
    EXPECT_TRUE(compared(hits(x, 4, 3)).contains(x));
  }
}

TEST(Compared, ARunningLargestIsALargest) {
  Scope scope;
  Node a = input({4, 3}), x = a * a + a * float_const(dtypes::Float32, 3);
  for (Node highest : {scan(Op::Max, x, 1), scan(Op::Min, contiguous(x), 1)}) {
    Node hit = equal(x, highest);
    EXPECT_TRUE(compared(hit).contains(x));
    set_realized(highest, f32_buffer(12));
    EXPECT_TRUE(outdated_by_rounding(toposort(hit)).contains(highest));
    set_realized(highest, Node());
  }
  Node sums = scan(Op::Add, x, 1);
  EXPECT_FALSE(compared(equal(x, sums)).contains(x)) << "a running sum rounds anyway";
}

TEST(Compared, ALongWayOfExactStepsIsFollowed) {
  Scope scope;
  Node a = input({4, 3}), x = a * a + a * float_const(dtypes::Float32, 3);
  for (const int steps : {100, 3000}) {
    Node y = x;
    for (int i = 0; i < steps; ++i) y = i % 2 == 0 ? neg(y) : max(y, float_const(dtypes::Float32, i));
    Node largest = maximum(y, {1}), hit = hits(y, 4, 3);
    set_realized(largest, f32_buffer(4));
    EXPECT_TRUE(outdated_by_rounding(toposort(hit)).contains(largest)) << steps;
  }
}

TEST(Compared, OnlyWhatBothSidesAreMadeOfCounts) {
  Scope scope;
  Node x = matmul(input({4, 2}), input({2, 3}), 4, 2, 3), y = matmul(input({4, 2}), input({2, 3}), 4, 2, 3);
  EXPECT_TRUE(compared(less(x, y)).empty());
  EXPECT_TRUE(compared(less(x, grow(float_const(dtypes::Float32, 0), {4, 3}))).empty());
  EXPECT_TRUE(compared(less(x, grow(sum(x, {1}), {4, 3}))).empty()) << "a sum of them rounds anyway";
}

TEST(Compared, ARealizedLargestIsNotComparedWithWhatIsComputedAnew) {
  Scope scope;
  Node x = matmul(input({4, 2}), input({2, 3}), 4, 2, 3), largest = maximum(x, {1}), hit = hits(x, 4, 3);
  auto outdated = [&] { return outdated_by_rounding(toposort(hit)); };
  EXPECT_TRUE(outdated().empty());
  set_realized(largest, f32_buffer(4));
  EXPECT_TRUE(outdated().contains(largest));
  set_realized(x, f32_buffer(12));  // perhaps later than the largest, by another kernel
  EXPECT_TRUE(outdated().contains(largest));
  set_realized(largest, Node());
  EXPECT_TRUE(outdated().empty());
  Node given = input({4, 3}), top = maximum(given, {1});
  set_realized(top, f32_buffer(4));
  EXPECT_TRUE(outdated_by_rounding(toposort(hits(given, 4, 3))).empty()) << "memory has the same bits always";
}

}  // namespace
}  // namespace lathe
