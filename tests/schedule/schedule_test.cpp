#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "evaluate.h"
#include "graphs.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rewrite/rewriter.h"

namespace lathe {
namespace {

using namespace test;

std::string index_of_load(Node ast, std::size_t slot) {
  for (Node n : toposort(ast))
    if (n.is(Op::Load) && n.arg(0).is(Op::Param) && param_slot(n.arg(0)) == static_cast<std::int64_t>(slot))
      return index_text(n.arg(1));
  return "none";
}

Node real(double v) { return float_const(dtypes::Float32, v); }
Schedule one(Node target) { return schedule(std::span(&target, 1)); }

TEST(Schedule, ElementwiseOnContiguousBuffersIsOneKernelWithOneRange) {
  Scope scope;
  Node a = input({4, 5, 6}), b = input({4, 5, 6});
  Schedule s = one(a + b);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(all_ranges(s.steps[0].ast).size(), 1u);
  EXPECT_EQ(index_of_load(s.steps[0].ast, 1), "r0");
  EXPECT_EQ(s.steps[0].buffers.size(), 3u);
}

TEST(Schedule, MovementNeverMakesAKernel) {
  Scope scope;
  Node x = input({4, 6});
  Node moved = cut(swap_axes(x, {1, 0}), {1, 0}, {5, 3});
  EXPECT_TRUE(one(moved).steps.empty());
  Schedule s = one(moved * float_const(dtypes::Float32, 2));
  ASSERT_EQ(s.steps.size(), 1u);
}

TEST(Schedule, AMatrixProductWithBiasAndReluIsOneKernel) {
  Scope scope;
  Node a = input({8, 16}), b = input({16, 12}), bias = grow(view(f32_buffer(12), {1, 12}), {8, 12});
  Node y = max(matmul(a, b, 8, 16, 12) + bias, float_const(dtypes::Float32, 0));
  Schedule s = one(y);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(all_ranges(s.steps[0].ast).size(), 3u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Reduce), 1);
  EXPECT_EQ(count(s.steps[0].ast, Op::FloorDiv) + count(s.steps[0].ast, Op::FloorMod), 0);
}

TEST(Schedule, AProductOfWhichOneKernelNeedsSeveralPartsIsStored) {
  Scope scope;
  Node y = matmul(input({64, 96}), input({96, 128}), 64, 96, 128);  // two gates side by side
  Schedule s =
      one(max(cut(y, {0, 0}, {64, 64}), float_const(dtypes::Float32, 0)) * cut(y, {0, 64}, {64, 128}));
  ASSERT_EQ(s.steps.size(), 2u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Reduce), 1) << "as one product it has tiles";
  EXPECT_EQ(count(s.steps[1].ast, Op::Reduce), 0);
}

// A product that two kernels read as 16-bit numbers is stored as such.
TEST(Schedule, WhatIsReadAsANarrowerNumberAloneIsStoredAsThat) {
  Scope scope;
  const DType narrow = dtypes::BFloat16;
  Node product = matmul(input({64, 96}), input({96, 128}), 64, 96, 128);
  Node kept = cast(product, narrow), wide = cast(kept, dtypes::Float32);
  const Node targets[] = {max(wide, float_const(dtypes::Float32, 0)), sum(wide * wide, {0})};
  const Schedule s = schedule(targets);
  ASSERT_EQ(s.steps.size(), 3u);
  EXPECT_EQ(s.steps[0].buffers[0]->dtype(), narrow);
  const Node both[] = {targets[0], sum(product * wide, {0})};  // one of them wants all digits
  EXPECT_EQ(schedule(both).steps[0].buffers[0]->dtype(), dtypes::Float32);
}

// One row over everything would be the work of one thread, or of one group.
TEST(Schedule, AFewMaximaOfAllPartsAreNoRowOfALongKernel) {
  Scope scope;
  Node x = input({256, 501}), parts = view(maximum(x, {1}), {1, 256});
  Node first = grow(view(maximum(parts, {1}), {1, 1}), {256, 501});
  const Schedule s = one(sum(where(equal(x, first), real(1), real(0)), {1}));
  for (const Step& step : s.steps)
    for (Node range : all_ranges(step.ast)) EXPECT_NE(range_kind(range), RangeKind::Loop) << step.name;
}

TEST(Schedule, AConvolutionHasAffineIndicesForwardAndBackward) {
  Scope scope;
  Node x = input({2, 3, 10, 10}), w = input({4, 3, 5, 5});
  // out (b, co, ci, ky, kx, oy, ox) summed over ci, ky, kx
  Node win = grow(view(windows(x, 2, 3, 10, 10, 5, 1), {2, 1, 3, 5, 5, 6, 6}), {2, 4, 3, 5, 5, 6, 6});
  Node wide = grow(view(w, {1, 4, 3, 5, 5, 1, 1}), {2, 4, 3, 5, 5, 6, 6});
  Node y = sum(win * wide, {2, 3, 4});
  Schedule s = one(y);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::FloorDiv) + count(s.steps[0].ast, Op::FloorMod), 0);
  // Gradient of x: sum over co, then back through both skews and the sum over ky, kx.
  Node g = input({2, 4, 1, 1, 1, 6, 6});
  Node gw = sum(grow(g, {2, 4, 3, 5, 5, 6, 6}) * wide, {1});
  Node cols = view(gw, {2, 3, 5, 5, 6, 6});
  Node back = unskew(unskew(cols, 5, 3, 1, 1, index_const(10)), 4, 2, 1, 1, index_const(10));
  Schedule t = one(sum(back, {2, 3}));
  ASSERT_EQ(t.steps.size(), 1u) << "the sum over co must join the sum over the window";
  EXPECT_EQ(count(t.steps[0].ast, Op::Reduce), 1);
  EXPECT_EQ(count(t.steps[0].ast, Op::FloorDiv) + count(t.steps[0].ast, Op::FloorMod), 0);
  // Gradient of w.
  Schedule u = one(sum(win * grow(g, {2, 4, 3, 5, 5, 6, 6}), {0, 5, 6}));
  ASSERT_EQ(u.steps.size(), 1u);
}

// Windows of every size and distance over axes that they fill or not, put back and added up.
TEST(Schedule, UnskewedWindowsByResidueEqualTheReference) {
  for (std::int64_t n : {6, 7, 12})
    for (std::int64_t k = 1; k <= 5; ++k)
      for (std::int64_t stride = 1; stride <= 4; ++stride) {
        Scope scope;
        const std::int64_t o = (n - k) / stride + 1, kx = 2, ox = (8 - kx) / stride + 1;
        Node x = input({3, o, ox, k, kx});
        Node back = unskew(unskew(x, 1, 3, stride, 1, index_const(n)), 2, 4, stride, 1, index_const(8));
        reference::BufferContents contents;
        for (Node b : toposort(x))
          if (b.is(Op::Buffer)) contents[b] = random_floats(buffer_size(b), 5);
        expect_equal(sum(back, {3, 4}), contents);
        expect_equal(sum(back, {0, 3, 4}) * float_const(dtypes::Float32, 2), contents);
        EXPECT_EQ(testing::Test::HasFailure(), false) << n << ", " << k << ", " << stride;
      }
}

TEST(Schedule, TheGradientOfPoolingIsASteadyWalk) {
  Scope scope;
  Node x = input({4, 10, 10}), most = input({4, 5, 5}), g = input({4, 5, 5});
  Node win = skew(skew(grow(view(x, {4, 10, 10, 1, 1}), {4, 10, 10, 2, 2}), 1, 3, 2, 1, index_const(5)), 2, 4,
                  2, 1, index_const(5));
  auto wide = [](Node v) { return grow(view(v, {4, 5, 5, 1, 1}), {4, 5, 5, 2, 2}); };
  Node back = where(equal(win, wide(most)), wide(g), win * float_const(dtypes::Float32, 0));
  back = unskew(unskew(back, 2, 4, 2, 1, index_const(10)), 1, 3, 2, 1, index_const(10));
  Schedule s = one(sum(back, {3, 4}));
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Reduce), 0);
  EXPECT_EQ(count(s.steps[0].ast, Op::FloorDiv) + count(s.steps[0].ast, Op::FloorMod), 0);
}

TEST(Schedule, AValueReadOftenByAReduceIsStoredOnce) {
  Scope scope;
  Node a = apply(Op::Exp2, input({32, 64})), b = input({64, 48});
  EXPECT_EQ(one(matmul(a, b, 32, 64, 48)).steps.size(), 2u);
}

TEST(Schedule, GatherReadsTwoElementsAnOutput) {
  Scope scope;
  Node table = input({50000, 8}), index = view(new_buffer(dtypes::Int32, 6, "CPU"), {6, 1, 1});
  Node hit = equal(grow(index, {6, 50000, 8}),
                   grow(view(arange(dtypes::Int32, index_const(50000)), {1, 50000, 1}), {6, 50000, 8}));
  Node rows =
      sum(where(hit, grow(view(table, {1, 50000, 8}), {6, 50000, 8}), float_const(dtypes::Float32, 0)), {1});
  Schedule s = one(rows);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Reduce), 0);
  EXPECT_LE(count(s.steps[0].ast, Op::Load), 2);
}

TEST(Schedule, EqualLayersAreEqualKernels) {
  Scope scope;
  Node x = input({8, 8});
  for (int i = 0; i < 6; ++i)
    x = contiguous(max(matmul(x, input({8, 8}), 8, 8, 8), float_const(dtypes::Float32, 0)));
  Schedule s = one(x);
  ASSERT_EQ(s.steps.size(), 6u);
  for (const Step& step : s.steps) EXPECT_EQ(step.ast.node(), s.steps[0].ast.node());
}

TEST(Schedule, ALongSumWithOneOutputRunsInParts) {
  Scope scope;
  Schedule s = one(sum(input({1 << 20}), {0}));
  ASSERT_EQ(s.steps.size(), 2u);
}

// Threads divide the rows, so that each reads memory in its order; a small matrix is in the caches anyway.
// A mask that compares floats, as of relu's gradient, is no one-hot choice that would read one element.
TEST(Schedule, ALongMaskedSumRunsInParts) {
  Scope scope;
  Node x = input({512, 4, 100}), g = input({512, 4, 100}), zero = float_const(dtypes::Float32, 0);
  Schedule s = one(sum(where(less(zero, x), g, zero), {0, 2}));
  EXPECT_EQ(s.steps.size(), 2u);
}

TEST(Schedule, ColumnSumsOfALargeMatrixRunInParts) {
  Scope scope;
  EXPECT_EQ(one(sum(input({1 << 14, 1024}), {0})).steps.size(), 2u);
  EXPECT_EQ(one(sum(input({1 << 10, 1024}), {0})).steps.size(), 1u);
  EXPECT_EQ(one(sum(input({1 << 14, 1024}), {1})).steps.size(), 1u);
}

TEST(Schedule, ConstantsNeedNoKernel) {
  Scope scope;
  Node c = grow(view(float_const(dtypes::Float32, 3), {1, 1}), {4, 5});
  EXPECT_TRUE(one(c).steps.empty());
}

TEST(Schedule, AStoreWaitsForReadersOfTheOldVersion) {
  Scope scope;
  Node b = f32_buffer(8);
  const std::int64_t axis = 0;
  Node y = flip(b, {&axis, 1}) * float_const(dtypes::Float32, 2);
  Node effect = intern(Op::Store, dtypes::Void, {b, b + float_const(dtypes::Float32, 1)});
  Node next = after(b, {&effect, 1});
  Node targets[] = {next, y};
  Schedule s = schedule(targets);
  ASSERT_EQ(s.steps.size(), 2u);
  EXPECT_EQ(s.steps[1].buffers[0].node(), b);
  EXPECT_EQ(s.results[0].node(), b);
}

TEST(Schedule, AnOverlappingStoreKeepsItsValueFirst) {
  Scope scope;
  Node b = f32_buffer(8);
  Node effect = intern(Op::Store, dtypes::Void, {cut(b, {1}, {8}), cut(b, {0}, {7})});
  Node next = after(b, {&effect, 1});
  EXPECT_EQ(one(next).steps.size(), 2u);
}

TEST(Schedule, TwoBuffersSwapInOneKernelOrThroughACopy) {
  Scope scope;
  Node a = f32_buffer(8), b = f32_buffer(8);
  Node ea = intern(Op::Store, dtypes::Void, {a, b}), eb = intern(Op::Store, dtypes::Void, {b, a});
  Node targets[] = {after(a, {&ea, 1}), after(b, {&eb, 1})};
  Schedule s = schedule(targets);
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(count(s.steps[0].ast, Op::Store), 2);
  // Where one of them is turned round on the way, the old version is kept for the second kernel.
  const std::int64_t axis = 0;
  Node turned = intern(Op::Store, dtypes::Void, {b, flip(a, {&axis, 1})});
  targets[1] = after(b, {&turned, 1});
  EXPECT_EQ(schedule(targets).steps.size(), 2u);
}

// R12: 200 inputs through kernels of 8 or 31 buffers give the same sum, in work that grows linearly.
TEST(Schedule, ALimitOfBuffersSplitsTheKernel) {
  Scope scope;
  for (int limit : {8, 31}) {
    ScheduleOptions options;
    options.max_buffers = limit;
    std::uint64_t work[2] = {};
    for (int tensors : {100, 200}) {
      reference::BufferContents memory;
      std::vector<double> want(16);
      auto made = [&](unsigned seed) {
        Node buffer = f32_buffer(16);
        memory[buffer] = random_floats(16, seed);
        for (std::size_t i = 0; i < want.size(); ++i)
          want[i] += memory[buffer].number(static_cast<std::int64_t>(i));
        return buffer;
      };
      Node x = made(0);
      for (int i = 1; i < tensors; ++i) x = x + made(static_cast<unsigned>(i));
      const std::uint64_t before = interner_stats().created + interner_stats().hits;
      Schedule s = schedule(std::span(&x, 1), options);
      work[tensors / 200] = interner_stats().created + interner_stats().hits - before;
      for (const Step& step : s.steps) EXPECT_LE(static_cast<int>(step.buffers.size()), limit);
      EXPECT_LE(static_cast<int>(s.steps.size()), tensors / (limit - 2) + 2);
      run(s, memory);
      const reference::Array& sum = memory[s.results[0]];
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(sum.number(static_cast<std::int64_t>(i)), want[i], 1e-4) << "limit " << limit;
    }
    EXPECT_LE(static_cast<double>(work[1]), 2.4 * static_cast<double>(work[0])) << "limit " << limit;
  }
}

// The sum of a float32 and a float64.
Node mix_dtypes(Node node, const Bindings&, Rewriter&) {
  return node.dtype() == dtypes::Float32
             ? intern(Op::Add, node.dtype(), {node.arg(0), cast(node.arg(1), dtypes::Float64)})
             : Node();
}
// A load at a half.
Node read_at_a_half(Node node, const Bindings&, Rewriter&) {
  return intern(Op::Load, node.dtype(), {node.arg(0), float_const(dtypes::Float32, 0.5)});
}
constexpr Rule kMixing[] = {{"mix-dtypes", any(0) + any(1), by(mix_dtypes)}};
constexpr Rule kHalving[] = {{"read-at-a-half", node_of(Op::Load), by(read_at_a_half)}};

std::string refusal(Node wanted, const Compile& compile) {
  try {
    schedule(std::span(&wanted, 1), {}, compile);
  } catch (const InternalError& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(Schedule, AMalformedNodeNamesTheStepAndTheRuleThatMadeIt) {
  Scope scope;
  Node wanted = input({4, 5}) + input({4, 5});
  struct Case {
    std::span<const Rule> rules;
    const char* says;
  };
  for (const Case& c :
       {Case{kMixing, "the tensor graph is malformed after pass prepare_graph, rule mix-dtypes of planted"},
        Case{kHalving, "the kernel is malformed after pass simplify_kernel, rule read-at-a-half"}})
    for (Checks checks : {Checks::Borders, Checks::EveryStep}) {
      const RuleSet planted("planted", {{"planted", c.rules, [](Node) { return true; }}});
      Compile compile;
      compile.checks = checks;
      compile.rules.planted = &planted;
      const std::string message = refusal(wanted, compile);
      EXPECT_NE(message.find(c.says), std::string::npos) << message;
    }
}

// Puts a graph that is malformed into the place of what one step gave.
struct Spoiled : StepSink {
  explicit Spoiled(std::string name) : step(std::move(name)) {}
  void tensors(const StepInfo& from, std::vector<Node>& targets) override {
    if (from.name != step) return;
    targets[0] = intern(Op::Add, targets[0].dtype(), {targets[0], cast(targets[0], dtypes::Float64)});
  }
  void kernel(const StepInfo& from, Node& kernel) override {
    if (from.name != step) return;
    NodeMap<Node> map;
    for (Node n : toposort(kernel))
      if (n.is(Op::Load)) map[n] = intern(Op::Load, n.dtype(), {n.arg(0), float_const(dtypes::Float32, 0.5)});
    kernel = substitute(kernel, map);
  }
  std::string step;
};

TEST(Schedule, EachStepIsBlamedForWhatItBreaks) {
  Scope scope;
  Node wanted = input({4, 5}) + input({4, 5});
  for (const StepInfo& step : schedule_steps())
    for (Checks checks : {Checks::Borders, Checks::EveryStep}) {
      Spoiled spoiled(step.name);
      Compile compile;
      compile.checks = checks;
      compile.sink = &spoiled;
      const std::string message = refusal(wanted, compile);
      EXPECT_NE(message.find(std::string("malformed after pass ") + step.name + ":"), std::string::npos)
          << step.name << ": " << message;
    }
}

TEST(Schedule, AMalformedTensorGraphIsRefusedInEveryBuild) {
  Scope scope;
  Node x = input({4, 5}), wanted = intern(Op::Add, x.dtype(), {x, cast(x, dtypes::Float64)});
  Compile compile;
  compile.checks = Checks::Borders;
  EXPECT_NE(refusal(wanted, compile).find("the tensor graph is malformed after pass tensor"),
            std::string::npos);
}

Node drop_first_effect(Node node, const Bindings&, Rewriter&) {
  return node.arg_count() == 0 ? Node() : sink(node.args().subspan(1));
}
constexpr Rule kLosing[] = {{"lose-a-store", node_of(Op::Sink), by(drop_first_effect)}};

TEST(Schedule, ARuleThatLosesAnOutputIsNamedWithTheOutput) {
  Scope scope;
  const RuleSet losing("planted", {{"planted", kLosing, [](Node) { return true; }}});
  Node a = input({4, 5}), b = input({4, 5});
  Node wanted[] = {a + b, a * b};  // one kernel with two stores
  for (std::size_t n : {std::size_t{1}, std::size_t{2}}) {
    Compile compile;
    compile.rules.planted = &losing;
    std::string message;
    try {
      schedule(std::span(wanted, n), {}, compile);
    } catch (const InternalError& e) {
      message = e.what();
    }
    EXPECT_NE(message.find("no kernel computes"), std::string::npos) << message;
    EXPECT_NE(message.find("Add.f32"), std::string::npos) << message;
    EXPECT_NE(message.find("lost by rule lose-a-store of planted"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lathe
