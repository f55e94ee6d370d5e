// Kernels on REF: values, faults that were planted, sampling.
#include <gtest/gtest.h>

#include "base/error.h"
#include "helpers.h"

namespace lathe::reference {
namespace {

constexpr DType f32 = dtypes::Float32;

Node global(std::int64_t n, std::int64_t id) { return range(index_const(n), id, RangeKind::Global); }
Node reduce_range(std::int64_t n, std::int64_t id) { return range(index_const(n), id, RangeKind::Reduce); }
Node one_store(Node s, std::vector<Node> ranges) { return sink(std::vector<Node>{end(s, ranges)}); }

TEST(KernelEval, AddsElementwise) {
  Scope scope;
  Node i = global(37, 0);
  Node k =
      one_store(store(param(f32, 0, 37), i, load(param(f32, 1, 37), i) + load(param(f32, 2, 37), i)), {i});
  std::vector<Array> a = {Array(f32, 37), random_array(f32, 37, 1), random_array(f32, 37, 2)};
  EvalReport r = run_kernel(k, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  for (int j = 0; j < 37; ++j) EXPECT_EQ(a[0].number(j), float(a[1].number(j)) + float(a[2].number(j)));
}

TEST(KernelEval, MatmulSumsInOrderOfTheReduceRange) {
  Scope scope;
  const int M = 5, N = 7, K = 11;
  Node m = global(M, 0), n = global(N, 1), k = reduce_range(K, 2);
  Node product =
      load(param(f32, 1, M * K), m * index_const(K) + k) * load(param(f32, 2, K * N), k * index_const(N) + n);
  Node kernel = one_store(
      store(param(f32, 0, M * N), m * index_const(N) + n, reduce_ranges(Op::Add, product, {&k, 1})), {m, n});
  std::vector<Array> a = {Array(f32, M * N), random_array(f32, M * K, 3), random_array(f32, K * N, 4)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  for (int y = 0; y < M; ++y)
    for (int x = 0; x < N; ++x) {
      float want = 0;
      for (int z = 0; z < K; ++z) want += float(a[1].number(y * K + z)) * float(a[2].number(z * N + x));
      EXPECT_EQ(a[0].number(y * N + x), want);
    }
}

TEST(KernelEval, AValueIsComputedOncePerIterationOfItsOwnRanges) {
  Scope scope;
  // Row softmax without a maximum: the row sum must not be recomputed for each column.
  const int N = 100;
  Node i = global(N, 0), j = global(N, 1), k = reduce_range(N, 2);
  Node sum = reduce_ranges(Op::Add, load(param(f32, 1, N * N), i * index_const(N) + k), {&k, 1});
  Node at = i * index_const(N) + j;
  Node kernel = one_store(store(param(f32, 0, N * N), at, load(param(f32, 1, N * N), at) / sum), {i, j});
  std::vector<Array> a = {Array(f32, N * N), random_array(f32, N * N, 5)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_LT(r.ops, 40.0 * N * N);
  float sum5 = 0;
  for (int c = 0; c < N; ++c) sum5 += float(a[1].number(5 * N + c));
  EXPECT_EQ(a[0].number(5 * N + 7), float(a[1].number(5 * N + 7)) / sum5);
}

TEST(KernelEval, GatesSkipStoresAndGiveZeroForLoads) {
  Scope scope;
  Node i = global(8, 0);
  Node inside = less(i, index_const(5));
  Node kernel = one_store(store(param(f32, 0, 6), i, load(param(f32, 1, 5), i, inside) + float_const(f32, 1),
                                less(i, index_const(6))),
                          {i});
  std::vector<Array> a = {Array(f32, 6), Array::of(f32, std::vector<double>{1, 2, 3, 4, 5})};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{2, 3, 4, 5, 6, 1}));
}

TEST(KernelEval, ExtentsMayBeVariablesAndLoadedValues) {
  Scope scope;
  // Ragged row sums: out[v] = sum of x[start[v] .. start[v + 1]).
  Node n = variable("n", 1, 10);
  Node v = range(n, 0, RangeKind::Global);
  Node starts = param(dtypes::Int32, 1, 11);
  Node from = cast(load(starts, v), dtypes::Index),
       to = cast(load(starts, v + index_const(1)), dtypes::Index);
  Node r = range(to - from, 1, RangeKind::Reduce);
  Node kernel = one_store(
      store(param(f32, 0, 10), v, reduce_ranges(Op::Add, load(param(f32, 2, 9), from + r), {&r, 1})), {v});
  std::vector<Array> a = {Array(f32, 10),
                          Array::of(dtypes::Int32, std::vector<double>{0, 2, 2, 5, 9, 0, 0, 0, 0, 0, 0}),
                          Array::of(f32, std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9})};
  EvalReport report = run_kernel(kernel, a, {}, {{"n", 4}});
  EXPECT_TRUE(report.ok()) << all_faults(report);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{3, 0, 12, 30, 0, 0, 0, 0, 0, 0}));
  EXPECT_THROW(run_kernel(kernel, a), UserError);
}

TEST(KernelEval, VectorsLoadConsecutiveElementsOrGather) {
  Scope scope;
  Node i = global(4, 0);
  Node x = load(param(f32, 1, 16), i * index_const(4), Node(), 4);
  Node back = load(param(f32, 1, 16), splat(index_const(15) - i * index_const(4), 4) +
                                          iota(dtypes::Index, 4) * splat(index_const(-1), 4));
  Node sum = hreduce(Op::Add, x * back);
  Node lanes[] = {sum, lane(x, 3), lane(back, 0), float_const(f32, 9)};
  Node kernel = one_store(store(param(f32, 0, 16), i * index_const(4), vec(lanes)), {i});
  std::vector<Array> a = {Array(f32, 16), random_array(f32, 16, 8)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  auto in = [&](int k) { return float(a[1].number(k)); };
  for (int g = 0; g < 4; ++g) {
    float p[4];
    for (int l = 0; l < 4; ++l) p[l] = in(g * 4 + l) * in(15 - g * 4 - l);
    EXPECT_EQ(a[0].number(g * 4), (p[0] + p[2]) + (p[1] + p[3]));
    EXPECT_EQ(a[0].number(g * 4 + 1), in(g * 4 + 3));
    EXPECT_EQ(a[0].number(g * 4 + 2), in(15 - g * 4));
    EXPECT_EQ(a[0].number(g * 4 + 3), 9);
  }
}

TEST(KernelEval, AnAccumulatorInRegistersIsReadThroughAfterWithItsLoop) {
  Scope scope;
  Node i = global(3, 0), k = reduce_range(6, 1);
  Node acc = define(f32, 0, 1, Space::Register), zero = index_const(0);
  Node started = after(acc, std::vector<Node>{store(after(acc, {&i, 1}), zero, float_const(f32, 10))});
  Node in_loop = after(started, std::vector<Node>{k});
  Node x = load(param(f32, 1, 18), i * index_const(6) + k);
  Node done = end(store(acc, zero, load(in_loop, zero) + x), {&k, 1});
  Node kernel = one_store(store(param(f32, 0, 3), i, load(after(started, {&done, 1}), zero)), {i});
  std::vector<double> ones(18, 1);
  std::vector<Array> a = {Array(f32, 3), Array::of(f32, ones)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{16, 16, 16}));
}

TEST(KernelEval, StagedMemoryIsFilledBeforeItIsRead) {
  Scope scope;
  // tile[j] = x[i * 4 + j] for all j, then out[i] = sum tile reversed.
  Node i = global(3, 0), j = range(index_const(4), 1, RangeKind::Loop), k = reduce_range(4, 2);
  Node tile = define(f32, 0, 4, Space::Register);
  Node filled = end(store(tile, j, load(param(f32, 1, 12), i * index_const(4) + j)), {&j, 1});
  Node x = load(after(tile, {&filled, 1}), index_const(3) - k);
  Node weight = cast(k + index_const(1), f32);
  Node kernel = one_store(store(param(f32, 0, 3), i, reduce_ranges(Op::Add, x * weight, {&k, 1})), {i});
  std::vector<Array> a = {Array(f32, 3),
                          Array::of(f32, std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{20, 60, 100}));
}

TEST(KernelEval, AParamIsReadAsItWasBeforeTheKernel) {
  Scope scope;
  Node i = global(4, 0);
  Node a0 = param(f32, 0, 4), a1 = param(f32, 1, 4);
  Node s0 = store(a0, i, load(a0, i) + float_const(f32, 1)),
       s1 = store(a1, i, load(a0, i) * float_const(f32, 2));
  Node kernel = sink(std::vector<Node>{end(s0, {&i, 1}), end(s1, {&i, 1})});
  std::vector<Array> a = {Array::of(f32, std::vector<double>{1, 2, 3, 4}), Array(f32, 4)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(a[1].numbers(), (std::vector<double>{2, 4, 6, 8}));
}

// ---- planted faults

TEST(KernelEvalFinds, ALoadOutOfBounds) {
  Scope scope;
  Node i = global(8, 0);
  Node kernel = one_store(store(param(f32, 0, 8), i, load(param(f32, 1, 8), i + index_const(1))), {i});
  std::vector<Array> a = {Array(f32, 8), Array(f32, 8)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(has_fault(r, "out of bounds", "load of param 1 at 8, which has 8 elements")) << all_faults(r);
}

TEST(KernelEvalFinds, AStoreBelowZero) {
  Scope scope;
  Node i = global(8, 0);
  Node kernel = one_store(store(param(f32, 0, 8), i - index_const(3), float_const(f32, 1)), {i});
  std::vector<Array> a = {Array(f32, 8)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(has_fault(r, "out of bounds", "store of param 0")) << all_faults(r);
}

TEST(KernelEvalFinds, AReadOfDefineMemoryThatNothingWrote) {
  Scope scope;
  Node i = global(4, 0), j = range(index_const(3), 1, RangeKind::Loop);
  Node tile = define(f32, 0, 4, Space::Register);
  Node filled = end(store(tile, j, cast(i, f32)), {&j, 1});
  Node kernel = one_store(store(param(f32, 0, 4), i, load(after(tile, {&filled, 1}), i)), {i});
  std::vector<Array> a = {Array(f32, 4)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(has_fault(r, "uninitialised read", "define 0")) << all_faults(r);
  EXPECT_TRUE(has_fault(r, "uninitialised read", "at 3")) << all_faults(r);
}

TEST(KernelEvalFinds, AReadOfAnUninitialisedParam) {
  Scope scope;
  Node i = global(4, 0);
  Node kernel = one_store(store(param(f32, 0, 4), i, load(param(f32, 1, 4), i)), {i});
  Array out(f32, 4), in(f32, 4);
  std::vector<View> views = {out.view(false), in.view(false)};
  EvalReport r = kernel_eval(kernel, views);
  EXPECT_TRUE(has_fault(r, "uninitialised read", "param 1")) << all_faults(r);
  views[1].initialised = true;
  EXPECT_TRUE(kernel_eval(kernel, views).ok());
}

TEST(KernelEvalFinds, TwoIterationsThatWriteOneElement) {
  Scope scope;
  Node i = global(8, 0);
  Node kernel = one_store(store(param(f32, 0, 8), floor_div(i, index_const(2)), float_const(f32, 1)), {i});
  std::vector<Array> a = {Array(f32, 8)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(has_fault(r, "race", "store of param 0")) << all_faults(r);
}

TEST(KernelEvalFinds, AnIterationThatReadsWhatAnotherWrites) {
  Scope scope;
  Node i = global(8, 0);
  Node a0 = param(f32, 0, 9);
  Node kernel = one_store(store(a0, i + index_const(1), load(a0, i)), {i});
  std::vector<Array> a = {Array(f32, 9)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(has_fault(r, "race", "param 0")) << all_faults(r);
}

TEST(KernelEval, ASequentialLoopMayWriteAnElementAgain) {
  Scope scope;
  Node i = range(index_const(8), 0, RangeKind::Loop);
  Node kernel = one_store(store(param(f32, 0, 1), index_const(0), cast(i, f32)), {i});
  std::vector<Array> a = {Array(f32, 1)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_EQ(a[0].number(0), 7);
}

TEST(KernelEval, LargeKernelsAreSampledAndSaySo) {
  Scope scope;
  const int N = 3000;
  Node i = global(N, 0), j = global(N, 1), k = reduce_range(100, 2);
  Node at = i * index_const(N) + j;
  Node kernel =
      one_store(store(param(f32, 0, N * N), at, reduce_ranges(Op::Add, cast(at + k, f32), {&k, 1})), {i, j});
  std::vector<Array> a = {Array(f32, std::int64_t{N} * N)};
  EvalOptions options{.seed = 7, .max_ops = 1e6};
  EvalReport r = run_kernel(kernel, a, options);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_TRUE(r.sampled);
  ASSERT_EQ(r.written.size(), 1u);
  std::int64_t count = 0;
  for (std::int64_t p = 0; p < N * N; ++p) {
    if (!r.written[0][static_cast<std::size_t>(p)]) continue;
    ++count;
    float want = 0;
    for (int z = 0; z < 100; ++z) want += static_cast<float>(p + z);
    ASSERT_EQ(a[0].number(p), want);
  }
  EXPECT_GT(count, 100);
  EXPECT_LT(count, 10 * N);
  EXPECT_TRUE(r.written[0].front());
  EXPECT_TRUE(r.written[0].back());
  options.max_ops = 1e9;
  EXPECT_FALSE(run_kernel(one_store(store(param(f32, 0, N), i, cast(i, f32)), {i}), a, options).sampled);
}

TEST(KernelEval, AReduceTooLongToSampleIsNotRun) {
  Scope scope;
  Node k = reduce_range(std::int64_t{1} << 40, 0);
  Node kernel =
      one_store(store(param(f32, 0, 1), index_const(0), reduce_ranges(Op::Add, cast(k, f32), {&k, 1})), {});
  std::vector<Array> a = {Array(f32, 1)};
  EXPECT_TRUE(run_kernel(kernel, a).incomplete);
}

TEST(KernelEval, AMillionOpsInARowDoNotOverflowTheStack) {
  Scope scope;
  Node i = global(2, 0);
  Node x = load(param(dtypes::Int32, 1, 2), i), one = int_const(dtypes::Int32, 1);
  Node y = x;
  for (int k = 0; k < 100000; ++k) y = intern(Op::Add, dtypes::Int32, {y, one});
  Node kernel = one_store(store(param(dtypes::Int32, 0, 2), i, y), {i});
  std::vector<Array> a = {Array(dtypes::Int32, 2), Array(dtypes::Int32, 2)};
  EvalReport r = run_kernel(kernel, a);
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_EQ(a[0].number(1), 100000);
}

TEST(KernelEval, ARangeThatNothingClosesIsAnError) {
  Scope scope;
  Node i = global(4, 0);
  std::vector<Array> a = {Array(f32, 4)};
  EXPECT_THROW(run_kernel(sink(std::vector<Node>{store(param(f32, 0, 4), i, cast(i, f32))}), a),
               InternalError);
}

}  // namespace
}  // namespace lathe::reference
