// Gradients of softmax(Q K^T) V without stored weights: the rule "rebuilt-weights".
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "codegen/codegen.h"
#include "evaluate.h"
#include "graphs.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace lathe {
namespace {

using namespace test;
using reference::Array;
using reference::BufferContents;

struct Sizes {
  std::int64_t heads, rows, keys, width, out;
};

enum class Mask { None, Causal, Window, Given };

struct Attention {
  Node q, k, v, mask, change, weights, scores_change, out;
  std::vector<Node> all;  // the output and the gradients of q, k and v
};

Attention attention(const Sizes& s, Mask mask) {
  const DType f = dtypes::Float32;
  Attention a;
  a.q = input({s.heads, s.rows, s.width});
  a.k = input({s.heads, s.keys, s.width});
  a.v = input({s.heads, s.keys, s.out});
  a.change = input({s.heads, s.rows, s.out});
  auto rows = [&](Node x, std::int64_t n) {
    return grow(view(x, {s.heads, s.rows, 1, n}), {s.heads, s.rows, s.keys, n});
  };
  auto keys = [&](Node x, std::int64_t n) {
    return grow(view(x, {s.heads, 1, s.keys, n}), {s.heads, s.rows, s.keys, n});
  };
  auto whole = [&](Node n) { return grow(n, {s.heads, s.rows, s.keys}); };
  const Node half = float_const(f, 0.25), low = float_const(f, -std::numeric_limits<double>::infinity());
  Node x = view(sum(rows(a.q, s.width) * keys(a.k, s.width), {3}), {s.heads, s.rows, s.keys}) * half;
  Node row = whole(view(arange(dtypes::Int32, index_const(s.rows)), {1, s.rows, 1}));
  Node column = whole(view(arange(dtypes::Int32, index_const(s.keys)), {1, 1, s.keys}));
  if (mask == Mask::Causal || mask == Mask::Window) x = where(less(row, column), low, x);
  if (mask == Mask::Window) x = where(less(column + int_const(dtypes::Int32, 20), row), low, x);
  if (mask == Mask::Given) {
    a.mask = input({s.rows, s.keys});
    x = x + whole(view(a.mask, {1, s.rows, s.keys}));
  }
  Node e = apply(Op::Exp2, (x - whole(maximum(x, {2}))) * float_const(f, 1.4426950408889634));
  a.weights = e * whole(apply(Op::Recip, sum(e, {2})));
  Node value = swap_axes(a.v, {0, 2, 1});
  Node by_out = sum(grow(view(a.weights, {s.heads, s.rows, 1, s.keys}), {s.heads, s.rows, s.out, s.keys}) *
                        grow(view(value, {s.heads, 1, s.out, s.keys}), {s.heads, s.rows, s.out, s.keys}),
                    {3});
  a.out = view(by_out, {s.heads, s.rows, s.out});
  // As the gradient rule of the tensor graph has it.
  Node d = sum(a.change * a.out, {2});
  Node dp = view(sum(rows(a.change, s.out) * keys(a.v, s.out), {3}), {s.heads, s.rows, s.keys});
  a.scores_change = a.weights * (dp - whole(d));
  auto weigh = [&](Node n, std::int64_t width) {
    return grow(view(n, {s.heads, s.rows, s.keys, 1}), {s.heads, s.rows, s.keys, width});
  };
  Node ds = a.scores_change;
  if (mask == Mask::Causal || mask == Mask::Window) ds = where(less(row, column), zero_of(f), ds);
  ds = ds * half;
  Node dq = view(sum(weigh(ds, s.width) * keys(a.k, s.width), {2}), {s.heads, s.rows, s.width});
  Node dk = view(sum(weigh(ds, s.width) * rows(a.q, s.width), {1}), {s.heads, s.keys, s.width});
  Node dv = view(sum(weigh(a.weights, s.out) * rows(a.change, s.out), {1}), {s.heads, s.keys, s.out});
  a.all = {a.out, dq, dk, dv};
  return a;
}

BufferContents contents_of(const Attention& a) {
  BufferContents out;
  unsigned seed = 1;
  for (Node n : {a.q, a.k, a.v, a.mask, a.change})
    if (n) out[n.arg(0)] = random_floats(buffer_size(n.arg(0)), seed++);
  return out;
}

ScheduleOptions always() {
  ScheduleOptions options;
  options.rebuilt_bytes = 0;
  return options;
}

// The kernels as programs, with the options that the heuristic gives them.
void run_programs(const Schedule& schedule, BufferContents& memory) {
  const Target target = named_target("x86-64-v3");
  for (const Step& step : schedule.steps) {
    const std::vector<Opt> options = choose_options(step.ast, target);
    const Program program = lower_kernel(step.ast, options, target, step.name);
    std::vector<reference::View> views;
    for (Node b : step.buffers)
      if (!memory.contains(b)) memory[b] = Array(b.dtype(), buffer_size(b));
    for (Node b : step.buffers) views.push_back(memory[b].view());
    const reference::EvalReport report = reference::program_eval(program, views);
    ASSERT_TRUE(report.ok()) << to_string(options) << "\n"
                             << (report.faults.empty() ? "incomplete" : report.faults[0]);
  }
}

void expect_same(const Attention& a, const Schedule& s, const BufferContents& memory,
                 const BufferContents& contents) {
  for (std::size_t i = 0; i < a.all.size(); ++i) {
    SCOPED_TRACE(i);
    Node result = s.results[i];
    const auto got = reference::tensor_eval(std::span(&result, 1), memory);
    const auto want = reference::tensor_eval(std::span(&a.all[i], 1), contents);
    for (std::int64_t e = 0; e < want[0].data.size(); ++e) {
      const double x = got[0].data.number(e), y = want[0].data.number(e);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      ASSERT_NEAR(x, y, 1e-4 * std::max(1.0, std::abs(y))) << e;
    }
  }
}

void expect_gradients(const Attention& a, const BufferContents& contents, bool rebuilt = true) {
  const Schedule s = schedule(a.all, always());
  int folds = 0;
  for (const Step& step : s.steps) folds += count(step.ast, Op::Fold);
  EXPECT_EQ(folds, rebuilt ? 3 : 0) << s.steps.size() << " kernels";
  BufferContents memory = contents;
  ASSERT_NO_FATAL_FAILURE(run(s, memory));
  expect_same(a, s, memory, contents);
}

// What the kernels write, in elements.
std::int64_t stored(const Schedule& s) {
  NodeMap<char> written;
  for (const Step& step : s.steps)
    for (Node n : toposort(step.ast))
      if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param))
        written[step.buffers[static_cast<std::size_t>(param_slot(base_memory(n.arg(0))))]] = 1;
  std::int64_t elements = 0;
  for (const auto& [buffer, one] : written) elements += buffer_size(buffer);
  return elements;
}

TEST(AttentionGradient, IsThreeKernelsAfterTheForwardOne) {
  for (Mask mask : {Mask::None, Mask::Causal, Mask::Window, Mask::Given})
    for (std::int64_t width : {64, 80, 96, 128, 256}) {
      Scope scope;
      const Schedule s = schedule(attention({12, 1024, 1000, width, width}, mask).all, always());
      EXPECT_EQ(s.steps.size(), 4u) << width;
      int folds = 0;
      for (const Step& step : s.steps) folds += count(step.ast, Op::Fold);
      EXPECT_EQ(folds, 3) << width;
    }
}

TEST(AttentionGradient, StoresNothingAsLargeAsTheWeights) {
  for (Mask mask : {Mask::None, Mask::Causal, Mask::Given}) {
    Scope scope;
    auto elements = [&](std::int64_t n, const ScheduleOptions& options) {
      return stored(schedule(attention({8, n, n, 64, 64}, mask).all, options));
    };
    // The output, three gradients, and the largest, the total and the products of each row.
    EXPECT_EQ(elements(256, always()), 8 * 256 * (4 * 64 + 3));
    EXPECT_EQ(elements(4096, ScheduleOptions()), 8 * 4096 * (4 * 64 + 3));
    EXPECT_EQ(elements(8192, ScheduleOptions()), 8 * 8192 * (4 * 64 + 3));
  }
}

TEST(AttentionGradient, IsThatOfTheGraphAtOddSizes) {
  for (Mask mask : {Mask::None, Mask::Causal, Mask::Window, Mask::Given})
    for (const Sizes& s : {Sizes{2, 17, 19, 16, 16},
                           {1, 18, 150, 16, 17},
                           {1, 65, 131, 17, 16},
                           {1, 3, 150, 16, 16},  // sums this short are no products
                           {1, 2, 1, 16, 16}}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(mask)) + " " + std::to_string(s.rows));
      Scope scope;
      const Attention a = attention(s, mask);
      expect_gradients(a, contents_of(a), std::min(s.rows, s.keys) >= 16);
    }
}

TEST(AttentionGradient, IsThatOfTheGraphWithTheOptionsOfTheHeuristic) {
  for (Mask mask : {Mask::Causal, Mask::Given})
    for (const Sizes& s : {Sizes{1, 32, 160, 16, 16}, {1, 67, 21, 16, 24}}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(mask)) + " " + std::to_string(s.rows));
      Scope scope;
      const Attention a = attention(s, mask);
      const BufferContents contents = contents_of(a);
      const Schedule made = schedule(a.all, always());
      BufferContents memory = contents;
      ASSERT_NO_FATAL_FAILURE(run_programs(made, memory));
      expect_same(a, made, memory, contents);
    }
}

TEST(AttentionGradient, OfMaskedRowsAndSpecialValuesIsThatOfTheGraph) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  Scope scope;
  const Attention a = attention({1, 20, 160, 16, 16}, Mask::Given);
  BufferContents contents = contents_of(a);
  Array& mask = contents[a.mask.arg(0)];
  for (int j = 0; j < 160; ++j) {
    mask.set(j, {0, j < 128 ? -inf : 0});  // the first tile masked
    mask.set(160 + j, {0, -inf});          // the whole row
    mask.set(2 * 160 + j, {0, j == 150 ? 0 : -inf});
  }
  mask.set(3 * 160 + 77, {0, std::numeric_limits<float>::quiet_NaN()});
  mask.set(4 * 160 + 3, {0, inf});
  expect_gradients(a, contents);
}

TEST(AttentionGradient, StoresTheWeightsWhereSomethingElseNeedsThem) {
  Scope scope;
  const Attention a = attention({2, 64, 64, 16, 16}, Mask::Given);
  for (Node wanted : {a.weights, sum(a.scores_change, {0})}) {
    std::vector<Node> targets = a.all;
    targets.push_back(wanted);
    const Schedule s = schedule(targets, always());
    EXPECT_GT(stored(s), 2 * 64 * 64);
    BufferContents memory = contents_of(a);
    ASSERT_NO_FATAL_FAILURE(run(s, memory));
  }
}

TEST(AttentionGradient, StoresSmallWeights) {
  Scope scope;
  for (const Step& step : schedule(attention({2, 64, 64, 16, 16}, Mask::None).all).steps)
    EXPECT_EQ(count(step.ast, Op::Fold), 0);
}

TEST(AttentionGradient, TheRuleCanBeDisabled) {
  Scope scope;
  Compile compile;
  compile.rules.disabled = {"rebuilt-weights"};
  for (const Step& step : schedule(attention({2, 64, 64, 16, 16}, Mask::None).all, always(), compile).steps)
    EXPECT_EQ(count(step.ast, Op::Fold), 0);
}

// A total for every row of a square matrix, taken as one for every column, is no softmax.
TEST(AttentionGradient, ATotalAlongTheOtherAxisIsNoSoftmax) {
  Scope scope;
  Node x = input({96, 96}), v = input({96, 16});
  auto whole = [](Node n) { return grow(n, {96, 96}); };
  Node e = apply(Op::Exp2, x - whole(maximum(x, {1})));
  Node weights = e / whole(view(sum(e, {1}), {1, 96}));
  Node out = matmul(weights, v, 96, 96, 16);
  BufferContents contents;
  unsigned seed = 1;
  for (Node n : {x, v}) contents[n.arg(0)] = random_floats(buffer_size(n.arg(0)), seed++);
  expect_equal(out, contents, 1e-5);
}

}  // namespace
}  // namespace lathe
