// Tensor graphs on REF: movement, reduces, versions of buffers, variables.
#include <gtest/gtest.h>

#include "base/error.h"
#include "helpers.h"
#include "reference/tensor_eval.h"

namespace lathe::reference {
namespace {

constexpr DType f32 = dtypes::Float32;

std::vector<Node> sizes(std::initializer_list<std::int64_t> values) {
  std::vector<Node> out;
  for (std::int64_t v : values) out.push_back(index_const(v));
  return out;
}

Node counting_buffer(std::int64_t size, BufferContents& contents, double first = 0) {
  Node b = new_buffer(f32, size, "REF");
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(first + static_cast<double>(i));
  contents[b] = Array::of(f32, values);
  return b;
}

std::vector<double> numbers(Node n, const BufferContents& contents, const Bindings& bindings = {}) {
  return tensor_eval({&n, 1}, contents, bindings)[0].data.numbers();
}

using Numbers = std::vector<double>;

TEST(TensorEval, MovesElements) {
  Scope scope;
  BufferContents contents;
  Node x = reshape(counting_buffer(6, contents), sizes({2, 3}));
  std::int64_t swap[] = {1, 0}, last[] = {1};
  EXPECT_EQ(numbers(x, contents), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers(permute(x, swap), contents), (Numbers{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(numbers(flip(x, last), contents), (Numbers{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(numbers(shrink(x, sizes({0, 1}), sizes({2, 3})), contents), (Numbers{1, 2, 4, 5}));
  EXPECT_EQ(numbers(pad(x, sizes({1, 0}), sizes({0, 1})), contents),
            (Numbers{0, 0, 0, 0, 0, 1, 2, 0, 3, 4, 5, 0}));
  Node row = shrink(x, sizes({1, 0}), sizes({2, 3}));
  EXPECT_EQ(numbers(expand(row, sizes({2, 3})), contents), (Numbers{3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(numbers(expand(float_const(f32, 7), sizes({2, 2})), contents), (Numbers{7, 7, 7, 7}));
}

TEST(TensorEval, SkewMakesWindowsAndUnskewIsItsTranspose) {
  Scope scope;
  BufferContents contents;
  // Windows of length 3, stride 2, dilation 1 over 7 elements: starts 0, 2, 4.
  Node x = reshape(counting_buffer(7, contents), sizes({7, 1}));
  Node windows = skew(expand(x, sizes({7, 3})), 0, 1, 2, 1, index_const(3));
  EXPECT_EQ(numbers(windows, contents), (Numbers{0, 1, 2, 2, 3, 4, 4, 5, 6}));
  // Summing the unskewed windows over k counts how often each element was used, times its value.
  std::int64_t k[] = {1};
  Node back = reduce_axes(Op::Add, unskew(windows, 0, 1, 2, 1, index_const(7)), k);
  EXPECT_EQ(numbers(back, contents), (Numbers{0, 1, 4, 3, 8, 5, 6}));
}

TEST(TensorEval, MatmulIsExpandMultiplySum) {
  Scope scope;
  BufferContents contents;
  const int M = 3, K = 4, N = 2;
  Node a = counting_buffer(M * K, contents), b = counting_buffer(K * N, contents, 1);
  Node wide_a = expand(reshape(a, sizes({M, K, 1})), sizes({M, K, N})),
       wide_b = expand(reshape(b, sizes({1, K, N})), sizes({M, K, N}));
  std::int64_t axis[] = {1};
  Numbers got = numbers(reduce_axes(Op::Add, wide_a * wide_b, axis), contents);
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      double want = 0;
      for (int k = 0; k < K; ++k) want += (m * K + k) * (1 + k * N + n);
      EXPECT_EQ(got[static_cast<std::size_t>(m * N + n)], want);
    }
}

TEST(TensorEval, ReducesOverNothingGiveTheUnit) {
  Scope scope;
  BufferContents contents;
  Node empty = shrink(counting_buffer(4, contents), sizes({2}), sizes({2}));
  std::int64_t axis[] = {0};
  EXPECT_EQ(numbers(reduce_axes(Op::Add, empty, axis), contents), Numbers{0});
  EXPECT_EQ(numbers(reduce_axes(Op::Max, empty, axis), contents), Numbers{-INFINITY});
}

TEST(TensorEval, StoresMakeVersionsAndOldVersionsStay) {
  Scope scope;
  BufferContents contents;
  Node x = counting_buffer(5, contents);
  // x[1:] += x[:-1]
  Node tail = shrink(x, sizes({1}), sizes({5})), head = shrink(x, sizes({0}), sizes({4}));
  Node stored = intern(Op::Store, dtypes::Void, {tail, tail + head});
  Node next = after(x, {&stored, 1});
  Node roots[] = {next, x, next + x};
  std::vector<TensorValue> values = tensor_eval(roots, contents);
  EXPECT_EQ(values[0].data.numbers(), (Numbers{0, 1, 3, 5, 7}));
  EXPECT_EQ(values[1].data.numbers(), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(values[2].data.numbers(), (Numbers{0, 2, 5, 8, 11}));
}

TEST(TensorEval, SwappingTwoBuffersByAssignReadsTheFirstVersions) {
  Scope scope;
  BufferContents contents;
  Node a = counting_buffer(2, contents), b = counting_buffer(2, contents, 10);
  Node sa = intern(Op::Store, dtypes::Void, {a, b}), sb = intern(Op::Store, dtypes::Void, {b, a});
  Node roots[] = {after(a, {&sa, 1}), after(b, {&sb, 1})};
  std::vector<TensorValue> values = tensor_eval(roots, contents);
  EXPECT_EQ(values[0].data.numbers(), (Numbers{10, 11}));
  EXPECT_EQ(values[1].data.numbers(), (Numbers{0, 1}));
}

TEST(TensorEval, AStoreThroughAChainOfViewsOfTheNextVersion) {
  Scope scope;
  BufferContents contents;
  Node x = counting_buffer(6, contents);
  Node s1 = intern(Op::Store, dtypes::Void, {shrink(x, sizes({0}), sizes({2})), float_const(f32, 9)});
  Node v1 = after(x, {&s1, 1});
  std::int64_t swap[] = {1, 0};
  Node view = shrink(permute(reshape(v1, sizes({2, 3})), swap), sizes({2, 0}), sizes({3, 2}));  // column 2
  Node s2 = intern(Op::Store, dtypes::Void, {view, view + float_const(f32, 100)});
  EXPECT_EQ(numbers(after(v1, {&s2, 1}), contents), (Numbers{9, 9, 102, 3, 4, 105}));
}

TEST(TensorEval, SizesMayHoldVariables) {
  Scope scope;
  BufferContents contents;
  Node n = variable("n", 1, 6);
  Node x = counting_buffer(6, contents);
  Node zero[] = {index_const(0)}, to[] = {n};
  Node part = shrink(x, zero, to);
  std::int64_t axis[] = {0};
  Node sum = reduce_axes(Op::Add, part, axis);
  EXPECT_EQ(numbers(sum, contents, {{"n", 4}}), Numbers{6});
  EXPECT_EQ(tensor_eval({&part, 1}, contents, {{"n", 2}})[0].sizes, std::vector<std::int64_t>{2});
  Node bound = intern(Op::Bind, dtypes::Index, {n, index_const(3)});
  Node scaled = reshape(sum, {}) * cast(bound, f32);
  EXPECT_EQ(numbers(scaled, contents), Numbers{9});
  EXPECT_THROW(numbers(sum, contents), UserError);
}

TEST(TensorEval, BitcastBetweenWidthsScalesTheLastAxis) {
  Scope scope;
  BufferContents contents;
  Node x = new_buffer(dtypes::UInt32, 2, "REF");
  contents[x] = Array::of(dtypes::UInt32, Numbers{0x01020304, 0x3f800000});
  Node bytes = bitcast(x, dtypes::UInt8);
  EXPECT_EQ(numbers(bytes, contents), (Numbers{4, 3, 2, 1, 0, 0, 128, 63}));
  EXPECT_EQ(numbers(bitcast(x, f32), contents)[1], 1);
  EXPECT_EQ(numbers(bitcast(bytes, dtypes::UInt32), contents), (Numbers{0x01020304, 0x3f800000}));
}

TEST(TensorEval, LongChainsAndSharedValuesAreComputedOnce) {
  Scope scope;
  BufferContents contents;
  Node x = counting_buffer(3, contents), y = x;
  for (int i = 0; i < 50000; ++i) y = intern(Op::Add, f32, {y, float_const(f32, 1)});
  EXPECT_EQ(numbers(y, contents)[2], 50002);
  Node doubled = x;
  for (int i = 0; i < 40; ++i) doubled = doubled + doubled;  // 2^40 paths
  EXPECT_EQ(numbers(doubled, contents)[1], std::exp2(40));
}

TEST(TensorEval, SortGivesPositionsAndKeepsTheOrderOfEqualKeys) {
  Scope scope;
  BufferContents contents;
  Node x = new_buffer(dtypes::Int16, 8, "REF");
  contents[x] = Array::of(dtypes::Int16, Numbers{3, -1, 3, -7, 5, 5, -5, 5});
  Node rows = reshape(x, sizes({2, 4}));
  EXPECT_EQ(numbers(sort_positions(rows, 4), contents), (Numbers{3, 1, 0, 2, 2, 0, 1, 3}));
  EXPECT_EQ(numbers(sort_positions(rows, 1), contents), (Numbers{3, 2}));
  EXPECT_EQ(numbers(sort_positions(x, 3), contents), (Numbers{3, 6, 1}));
  EXPECT_EQ(numbers(sort_positions(rows, 0), contents), (Numbers{}));
}

TEST(TensorEval, ABufferWithoutContentsIsRefused) {
  Scope scope;
  Node x = new_buffer(f32, 2, "REF");
  EXPECT_THROW(numbers(x, {}), UserError);
}

}  // namespace
}  // namespace lathe::reference
