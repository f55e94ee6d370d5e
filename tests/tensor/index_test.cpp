// Indexing, basic and advanced, against loops over plain arrays.
#include <random>

#include "engine/engine.h"
#include "tensor/values.h"

namespace lathe {
namespace {

using testing::expect_shape;
using testing::expect_values;

TEST(Indexing, SlicesFollowPython) {
  const std::int64_t n = 7;
  Tensor x = Tensor::arange(n);
  for (std::int64_t start = -9; start <= 9; ++start)
    for (std::int64_t stop = -9; stop <= 9; ++stop)
      for (std::int64_t step : {-3, -1, 1, 2}) {
        std::vector<double> expected;
        auto fix = [&](std::int64_t i, std::int64_t low, std::int64_t high) {
          return std::clamp(i < 0 ? i + n : i, low, high);
        };
        std::int64_t a = step > 0 ? fix(start, 0, n) : fix(start, -1, n - 1),
                     b = step > 0 ? fix(stop, 0, n) : fix(stop, -1, n - 1);
        for (std::int64_t i = a; step > 0 ? i < b : i > b; i += step)
          expected.push_back(static_cast<double>(i));
        SCOPED_TRACE(std::to_string(start) + ":" + std::to_string(stop) + ":" + std::to_string(step));
        Tensor y = x[Slice{start, stop, step}];
        ASSERT_EQ(y.shape()[0].value(), static_cast<std::int64_t>(expected.size()));
        if ((start + stop) % 5 == 0) expect_values(y, expected);
      }
}

TEST(Indexing, NewAxesAndEllipsis) {
  Tensor x = Tensor::arange(24).reshape({2, 3, 4});
  expect_shape(x.getitem({kEllipsis, 0}), {2, 3});
  expect_shape(x.getitem({0, kEllipsis, kNewAxis}), {3, 4, 1});
  expect_shape(x.getitem({kNewAxis, Slice{}, 1}), {1, 2, 4});
  expect_values(x.getitem({1, 2, -1}), {23});
}

TEST(Indexing, IndexTensorsFollowNumpy) {
  Tensor x = Tensor::arange(24).reshape({2, 3, 4});
  expect_values(x.getitem({1, Tensor({2, 0})}), {20, 21, 22, 23, 12, 13, 14, 15});
  expect_shape(x.getitem({Slice{}, Tensor({{0, 1}, {2, -1}})}), {2, 2, 2, 4});
  expect_values(x.getitem({Tensor({0, 1}), Tensor({1, 2}), Tensor({3, 0})}), {7, 20});
  // Indices that do not stand side by side go to the front.
  expect_shape(x.getitem({Tensor({0, 1, 1}), Slice{}, Tensor({3, 0, 2})}), {3, 3});
  expect_values(x.getitem({Tensor({0, 1}), Slice{}, Tensor({3, 0})}), {3, 7, 11, 12, 16, 20});
  expect_values(Tensor::arange(5)[Tensor({-1, -5})], {4, 0});
}

TEST(Indexing, MasksSelectInOrder) {
  Tensor x = Tensor::arange(6).reshape({2, 3});
  expect_values(x[x > 2], {3, 4, 5});
  expect_values(x[Tensor({true, false})], {0, 1, 2});
  expect_values(x.masked_select(x % 2 == 0), {0, 2, 4});
  expect_values(x.masked_select(x > 3, 4, -1), {4, 5, -1, -1});
  expect_values((x > 3).nonzero(), {1, 1, 1, 2});
  expect_values((x > 3).nonzero(3, -1), {1, 1, 1, 2, -1, -1});
}

TEST(Indexing, SetitemWritesWhatGetitemReads) {
  Tensor x = Tensor::zeros({3, 4}).contiguous();
  x.setitem({Slice{}, Tensor({1, 3})}, Tensor({{1.0, 2.0}}));
  expect_values(x, {0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 2});
  x.setitem({Tensor({0, 0}), Tensor({0, 0})}, Tensor({5.0, 6.0}));  // the last write wins
  expect_values(x[0], {6, 1, 0, 2});
  x.setitem({x == 0}, -1);
  expect_values(x[1], {-1, 1, -1, 2});
  x.setitem({Tensor({true, false, true})}, 9);
  expect_values(x, {9, 9, 9, 9, -1, 1, -1, 2, 9, 9, 9, 9});
  x.setitem({kEllipsis, 0}, Tensor({1.0, 2.0, 3.0}));
  expect_values(x.getitem({Slice{}, 0}), {1, 2, 3});
}

TEST(Indexing, GatherAndScatterMatchLoops) {
  std::mt19937 random(7);
  SCOPED_TRACE("seed 7");
  const std::int64_t rows = 3, columns = 5, picks = 4;
  std::vector<double> x(rows * columns), src(rows * picks);
  std::vector<std::int32_t> index(rows * picks);
  for (double& v : x) v = static_cast<double>(random() % 100);
  for (double& v : src) v = static_cast<double>(random() % 100);
  for (std::int32_t& v : index) v = static_cast<std::int32_t>(random() % columns);
  Tensor tx(x, {rows, columns}), ti(index, {rows, picks}), ts(src, {rows, picks});
  std::vector<double> gathered, set = x, added = x, most = x;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t p = 0; p < picks; ++p) {
      std::size_t at = r * columns + static_cast<std::size_t>(index[r * picks + p]);
      gathered.push_back(x[at]);
      set[at] = src[r * picks + p];
      added[at] += src[r * picks + p];
      most[at] = std::max(most[at], src[r * picks + p]);
    }
  expect_values(tx.gather(1, ti), gathered);
  expect_values(tx.scatter(1, ti, ts), set);
  expect_values(tx.scatter(1, ti, ts, "add"), added);
  expect_values(tx.scatter_reduce(1, ti, ts, "amax"), most);
}

TEST(Indexing, ScatterReduceWithoutSelf) {
  Tensor base({10.0, 20.0, 30.0}), index({0, 0, 2}), src({1.0, 3.0, 5.0});
  expect_values(base.scatter_reduce(0, index, src, "mean", false), {2, 20, 5});
  expect_values(base.scatter_reduce(0, index, src, "mean"), {14.0 / 3, 20, 17.5}, 1e-6);
  expect_values(base.scatter_reduce(0, index, src, "prod", false), {3, 20, 5});
}

TEST(Indexing, SortIsStableAndPutsNanLast) {
  auto [values, indices] = Tensor({3, 1, 2, 1, 3, 0}).sort();
  expect_values(values, {0, 1, 1, 2, 3, 3});
  expect_values(indices, {5, 1, 3, 2, 0, 4});
  auto [down, down_indices] = Tensor({3, 1, 2, 1, 3, 0}).sort(-1, true);
  expect_values(down, {3, 3, 2, 1, 1, 0});
  expect_values(down_indices, {0, 4, 2, 1, 3, 5});
  expect_values(Tensor({2.0, NAN, -1.0}).sort().first, {-1, 2, NAN});
  expect_values(Tensor({{3, 1}, {2, 5}}).argsort(0), {1, 0, 0, 1});
  auto [top, where] = Tensor({5, 9, 1, 7}).topk(2);
  expect_values(top, {9, 7});
  expect_values(where, {1, 3});
}

TEST(Indexing, ScansMatchLoopsAcrossChunks) {
  const std::int64_t n = 150;
  std::vector<double> x, sums, tops;
  double sum = 0, top = -1e9;
  for (std::int64_t i = 0; i < n; ++i) {
    double v = std::round(10 * std::sin(static_cast<double>(i)));
    x.push_back(v);
    sums.push_back(sum += v);
    tops.push_back(top = std::max(top, v));
  }
  expect_values(Tensor(x).cumsum(), sums);
  expect_values(Tensor(x).cummax().first, tops);
  expect_values(Tensor({2, 3, 4}).cumprod(), {2, 6, 24});
  expect_values(Tensor({3, 1, 3, 0}).cummin().second, {0, 1, 1, 3});
  expect_values(Tensor({3, 3, 1}).cummax().second, {0, 1, 1});
}

TEST(Indexing, OneHotAndEmbedding) {
  expect_values(Tensor({0, 2}).one_hot(3), {1, 0, 0, 0, 0, 1});
  expect_values(Tensor({0, 2}).one_hot(), {1, 0, 0, 0, 0, 1});
  Tensor table = Tensor::arange(6).reshape({3, 2}).cast(dtypes::float32);
  expect_values(table.embedding(Tensor({{2, 0}})), {4, 5, 0, 1});
  Tensor grad = table.embedding(Tensor({1, 1, 2})).sum().gradient({table})[0];
  expect_values(grad, {0, 0, 2, 2, 1, 1});
}

TEST(Indexing, RowsOfALargeTableAreOneKernelThatReadsOnlyThem) {
  Tensor table = Tensor::empty({50000, 64}), index({1, 5, 49999, 3});
  for (const auto& read :
       {std::function<Tensor()>([&] { return table.embedding(index); }),
        std::function<Tensor()>([&] { return table[index]; }),
        std::function<Tensor()>([&] { return table.gather(0, index.unsqueeze(1).expand({4, 64})); })}) {
    engine::reset_counters();
    read().realize();
    EXPECT_EQ(engine::counters().kernels, 1U);
    EXPECT_LE(engine::counters().bytes,
              4 * 64 * (3 * 4.0));  // an index, an element and a result for each output
  }
}

}  // namespace
}  // namespace lathe
