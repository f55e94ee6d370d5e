// softmax(Q K^T) V in one kernel: the rule "running-maximum".
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/kernel/count.h"
#include "evaluate.h"
#include "graphs.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "rewrite/rewriter.h"
#include "schedule/schedule.h"
#include "support/golden.h"

namespace lathe {
namespace {

using namespace test;
using reference::Array;
using reference::BufferContents;

struct Sizes {
  std::int64_t heads, rows, keys, width, out;
};

enum class Mask { None, Causal, Given };

struct Attention {
  Node q, k, v, mask, scores, weights, out;
};

Attention attention(Sizes s, Mask mask) {
  Attention a;
  a.q = input({s.heads, s.rows, s.width});
  a.k = input({s.heads, s.keys, s.width});
  a.v = input({s.heads, s.keys, s.out});
  Node q = grow(view(a.q, {s.heads, s.rows, 1, s.width}), {s.heads, s.rows, s.keys, s.width});
  Node k = grow(view(a.k, {s.heads, 1, s.keys, s.width}), {s.heads, s.rows, s.keys, s.width});
  Node x = view(sum(q * k, {3}), {s.heads, s.rows, s.keys}) * float_const(dtypes::Float32, 0.5);
  Node low = float_const(dtypes::Float32, -std::numeric_limits<double>::infinity());
  auto whole = [&](Node n) { return grow(n, {s.heads, s.rows, s.keys}); };
  if (mask == Mask::Causal) {
    Node row = whole(view(arange(dtypes::Int32, index_const(s.rows)), {1, s.rows, 1}));
    Node column = whole(view(arange(dtypes::Int32, index_const(s.keys)), {1, 1, s.keys}));
    x = where(less(row, column), low, x);
  }
  if (mask == Mask::Given) {
    a.mask = input({s.rows, s.keys});
    x = x + whole(view(a.mask, {1, s.rows, s.keys}));
  }
  a.scores = x;
  Node e = apply(Op::Exp2, (x - whole(maximum(x, {2}))) * float_const(dtypes::Float32, 1.4426950408889634));
  a.weights = e / whole(sum(e, {2}));
  Node p = grow(view(a.weights, {s.heads, s.rows, 1, s.keys}), {s.heads, s.rows, s.out, s.keys});
  Node v =
      grow(view(swap_axes(a.v, {0, 2, 1}), {s.heads, 1, s.out, s.keys}), {s.heads, s.rows, s.out, s.keys});
  a.out = view(sum(p * v, {3}), {s.heads, s.rows, s.out});
  return a;
}

BufferContents contents_of(const Attention& a) {
  BufferContents out;
  unsigned seed = 1;
  for (Node n : {a.q, a.k, a.v, a.mask})
    if (n) out[n.arg(0)] = random_floats(buffer_size(n.arg(0)), seed++);
  return out;
}

TEST(Attention, IsOneKernelThatStoresNoScores) {
  for (Mask mask : {Mask::None, Mask::Causal, Mask::Given}) {
    Scope scope;
    Schedule s = schedule(std::vector<Node>{attention({12, 1024, 1024, 64, 64}, mask).out});
    ASSERT_EQ(s.steps.size(), 1u);
    EXPECT_EQ(count(s.steps[0].ast, Op::Fold), 1);
    std::size_t inputs = mask == Mask::Given ? 4 : 3;
    EXPECT_EQ(s.steps[0].buffers.size(), inputs + 1) << "nothing between the inputs and the output";
    for (Node n : toposort(s.steps[0].ast))
      EXPECT_TRUE(!n.is(Op::Define) || memory_size(n) <= 128) << "a tile of one row";
  }
}

TEST(Attention, AsScheduled) {
  Scope scope;
  Schedule s = schedule(std::vector<Node>{attention({2, 8, 256, 16, 12}, Mask::Causal).out});
  ASSERT_EQ(s.steps.size(), 1u);
  test::expect_golden("tests/schedule/golden/attention.kernel.txt", print_graph(s.steps[0].ast));
}

TEST(Attention, EqualsTheThreePassesAtOddSizes) {
  for (Mask mask : {Mask::None, Mask::Causal, Mask::Given})
    for (Sizes s :
         {Sizes{2, 5, 7, 4, 3}, {1, 3, 200, 8, 5}, {2, 9, 131, 3, 1}, {1, 1, 2, 1, 1}, {3, 4, 1, 2, 2}}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(mask)) + " " + std::to_string(s.keys));
      Scope scope;
      Attention a = attention(s, mask);
      expect_equal(a.out, contents_of(a));
    }
}

TEST(Attention, MaskedTilesAndRowsGiveWhatTheThreePassesGive) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  Scope scope;
  Sizes s{1, 6, 256, 4, 3};
  Attention a = attention(s, Mask::Given);
  BufferContents contents = contents_of(a);
  Array& mask = contents[a.mask.arg(0)];
  for (int j = 0; j < 256; ++j) {
    mask.set(j, {0, j < 128 ? -inf : 0});         // the first tile masked
    mask.set(256 + j, {0, j >= 128 ? -inf : 0});  // the last
    mask.set(2 * 256 + j, {0, -inf});             // the whole row: NaN
    mask.set(3 * 256 + j, {0, j == 200 ? 0 : -inf});
  }
  mask.set(4 * 256 + 77, {0, std::numeric_limits<float>::quiet_NaN()});
  mask.set(5 * 256 + 3, {0, inf});
  expect_equal(a.out, contents);
}

TEST(Attention, CountsAtMostThreeTenthsMoreOperationsThanThePasses) {
  Scope scope;
  for (Mask mask : {Mask::None, Mask::Causal, Mask::Given}) {
    Node out = attention({4, 256, 300, 64, 64}, mask).out;
    Compile compile;
    auto flops = [&] {
      double n = 0;
      for (const Step& step : schedule(std::span(&out, 1), {}, compile).steps)
        n += count_work(step.ast).flops;
      return n;
    };
    const double fused = flops();
    compile.rules.disabled = {"running-maximum"};
    const double passes = flops();
    EXPECT_LE(fused, 1.3 * passes);
  }
}

TEST(Attention, IsNotFusedWhereTheWeightsAreNeeded) {
  Scope scope;
  Attention a = attention({4, 64, 64, 16, 16}, Mask::None);
  Schedule s = schedule(std::vector<Node>{a.out, a.weights});
  for (const Step& step : s.steps) EXPECT_EQ(count(step.ast, Op::Fold), 0);
}

TEST(Attention, TheRuleCanBeDisabled) {
  Scope scope;
  Compile compile;
  compile.rules.disabled = {"running-maximum"};
  Schedule s = schedule(std::vector<Node>{attention({4, 64, 64, 16, 16}, Mask::None).out}, {}, compile);
  EXPECT_GT(s.steps.size(), 1u);
}

}  // namespace
}  // namespace lathe
