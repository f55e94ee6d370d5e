// Reduces whose results are used again along the reduced axis: softmax, norms and their kin in one kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "evaluate.h"
#include "graphs.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "schedule/schedule.h"

namespace lathe {
namespace {

using namespace test;
using reference::Array;
using reference::BufferContents;

Node number(double v) { return float_const(dtypes::Float32, v); }

Node softmax(Node x, std::int64_t rows, std::int64_t columns) {
  Node e = apply(Op::Exp2, x - grow(maximum(x, {1}), {rows, columns}));
  return e / grow(sum(e, {1}), {rows, columns});
}
Node log_softmax(Node x, std::int64_t rows, std::int64_t columns) {
  Node shifted = x - grow(maximum(x, {1}), {rows, columns});
  return shifted - grow(apply(Op::Log2, sum(apply(Op::Exp2, shifted), {1})), {rows, columns});
}
Node mean(Node x, std::int64_t columns) { return sum(x, {1}) * number(1.0 / static_cast<double>(columns)); }
Node layernorm(Node x, std::int64_t rows, std::int64_t columns) {
  Node off = x - grow(mean(x, columns), {rows, columns});
  Node scale = apply(Op::Sqrt, mean(off * off, columns) + number(1e-5));
  return off / grow(scale, {rows, columns});
}
Node rmsnorm(Node x, std::int64_t rows, std::int64_t columns) {
  return x / grow(apply(Op::Sqrt, mean(x * x, columns) + number(1e-5)), {rows, columns});
}
Node share(Node x, std::int64_t rows, std::int64_t columns) { return x / grow(sum(x, {1}), {rows, columns}); }

std::size_t kernels(std::initializer_list<Node> targets) {
  return schedule(std::span<const Node>(targets.begin(), targets.size())).steps.size();
}

struct Case {
  const char* name;
  Node (*make)(Node, std::int64_t, std::int64_t);
};
constexpr Case kCases[] = {{"softmax", softmax},
                           {"log_softmax", log_softmax},
                           {"layernorm", layernorm},
                           {"rmsnorm", rmsnorm},
                           {"share", share}};

TEST(Rows, SoftmaxAndTheNormsAreOneKernel) {
  for (const Case& c : kCases) {
    Scope scope;
    EXPECT_EQ(kernels({c.make(input({4096, 1024}), 4096, 1024)}), 1u) << c.name;
    EXPECT_EQ(kernels({c.make(input({3, 7}), 3, 7)}), 1u) << c.name;
    EXPECT_EQ(kernels({c.make(input({1, 50}), 1, 50)}), 1u) << c.name;
    EXPECT_EQ(kernels({c.make(input({128, 50257}), 128, 50257)}), 1u) << c.name;
  }
}

TEST(Rows, EqualTheirReferenceAtOddSizesAndOnSpecialRows) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const Case& c : kCases)
    for (auto [rows, columns] :
         {std::pair<int, int>{5, 13}, {1, 1}, {7, 1}, {1, 64}, {6, 33}, {0, 4}, {3, 0}}) {
      SCOPED_TRACE(std::string(c.name) + " " + std::to_string(rows) + "x" + std::to_string(columns));
      Scope scope;
      Node x = input({rows, columns});
      Array data = random_floats(rows * columns, 7);
      BufferContents contents;
      contents[x.arg(0)] = data;
      expect_equal(c.make(x, rows, columns), contents);
      if (rows < 5 || columns < 2) continue;
      for (int j = 0; j < columns; ++j) data.set(columns + j, {0, -inf});
      data.set(2 * columns + 1, {0, nan});
      data.set(3 * columns, {0, inf});
      data.set(4 * columns, {0, -inf});
      contents[x.arg(0)] = data;
      expect_equal(c.make(x, rows, columns), contents);
    }
}

TEST(Rows, OutputRangesBelowARowAreLoopsAndTheOthersStayParallel) {
  Scope scope;
  Node x = input({64, 100});
  Schedule s = schedule(std::vector<Node>{softmax(x, 64, 100)});
  ASSERT_EQ(s.steps.size(), 1u);
  std::vector<RangeKind> kinds;
  for (Node r : all_ranges(s.steps[0].ast)) kinds.push_back(range_kind(r));
  EXPECT_EQ(kinds, (std::vector<RangeKind>{RangeKind::Global, RangeKind::Loop, RangeKind::Loop,
                                           RangeKind::Reduce, RangeKind::Reduce}));
}

TEST(Rows, AnExpensiveElementIsComputedOnceIntoAPanel) {
  Scope scope;
  Schedule s = schedule(std::vector<Node>{softmax(input({64, 100}), 64, 100)});
  int panels = 0, exponentials = 0;
  for (Node n : toposort(s.steps[0].ast)) panels += n.is(Op::Define), exponentials += n.is(Op::Exp2);
  EXPECT_EQ(panels, 1);
  EXPECT_EQ(exponentials, 1);
  // A subtraction is not worth it.
  Schedule t = schedule(std::vector<Node>{layernorm(input({64, 100}), 64, 100)});
  for (Node n : toposort(t.steps[0].ast)) EXPECT_FALSE(n.is(Op::Define));
}

TEST(Rows, AHugeRowIsStoredInParts) {
  Scope scope;
  EXPECT_GT(kernels({softmax(input({128, 1 << 20}), 128, 1 << 20)}), 1u) << "the row leaves the caches";
  EXPECT_GT(kernels({softmax(input({2, 100000}), 2, 100000)}), 1u) << "two rows are too few to work on";
}

TEST(Rows, AProductKeepsItsOutputsParallel) {
  Scope scope;
  Node x = input({64, 96}), w = input({96, 80});
  // The row's scale could be computed in the product's kernel, but then its columns would run inside rows.
  Schedule s = schedule(std::vector<Node>{matmul(rmsnorm(x, 64, 96), w, 64, 96, 80)});
  ASSERT_EQ(s.steps.size(), 2u);
  for (const Step& step : s.steps) {
    bool product = false;
    for (Node n : toposort(step.ast)) product |= n.is(Op::Reduce) && n.arg(0).is(Op::Mul);
    for (Node r : all_ranges(step.ast))
      EXPECT_FALSE(step.buffers.size() == 4 && product && range_kind(r) == RangeKind::Loop);
  }
  // And where the product comes first in the graph, the scale of its result is a row of another kernel.
  Node y = matmul(x, w, 64, 96, 80) * grow(mean(x * x, 96), {64, 80});
  for (const Step& step : schedule(std::vector<Node>{y}).steps)
    for (Node r : all_ranges(step.ast)) EXPECT_NE(range_kind(r), RangeKind::Loop);
}

TEST(Rows, ANormOfAProductWithBiasAndResidualIsTheProductAndOneKernelOfRows) {
  Scope scope;
  Node x = input({64, 96}), w = input({96, 80}), bias = input({1, 80}), residual = input({64, 80});
  Node h = matmul(x, w, 64, 96, 80) + grow(bias, {64, 80}) + residual;
  Node shifted = h - grow(mean(h, 80), {64, 80});
  Node y = shifted / grow(apply(Op::Sqrt, mean(shifted * shifted, 80)), {64, 80});
  EXPECT_EQ(schedule(std::vector<Node>{y}).steps.size(), 2u);
}

TEST(Rows, WhatOtherKernelsNeedOfARowIsStoredByTheKernelThatComputesIt) {
  Scope scope;
  Node x = input({64, 96});
  Node scale = apply(Op::Sqrt, mean(x * x, 96));
  Node y = x / grow(scale, {64, 96});
  // A sum down the columns needs the scale of every row, inside its own loop.
  Node down = sum(x * grow(scale, {64, 96}), {0});
  Schedule s = schedule(std::vector<Node>{contiguous(y), down});
  ASSERT_EQ(s.steps.size(), 2u);
  EXPECT_EQ(s.steps[0].ast.node().arg_count(), 2u) << "one kernel stores the row and its scale";
  BufferContents contents;
  contents[x.arg(0)] = random_floats(64 * 96, 3);
  expect_equal(down, contents, 1e-5);
  expect_equal(contiguous(y), contents);
}

TEST(Rows, OfGroupsAreOneKernelWithoutPanels) {
  for (const Case& c : kCases) {
    Scope scope;
    Node x = input({96, 1024}), y = c.make(x, 96, 1024);
    ScheduleOptions options;
    options.rows = Rows::Group;
    const Schedule s = schedule(std::span(&y, 1), options);
    ASSERT_EQ(s.steps.size(), 1u) << c.name;
    for (Node n : toposort(s.steps[0].ast)) EXPECT_FALSE(n.is(Op::Define)) << c.name;
    Compile invariant;
    invariant.invariant = true;
    EXPECT_GT(schedule(std::span(&y, 1), options, invariant).steps.size(), 1u) << c.name;
  }
}

TEST(Rows, CanBeTurnedOff) {
  Scope scope;
  Node y = softmax(input({64, 100}), 64, 100);
  ScheduleOptions options;
  options.rows = Rows::Apart;
  EXPECT_GT(schedule(std::span(&y, 1), options).steps.size(), 1u);
}

}  // namespace
}  // namespace lathe
