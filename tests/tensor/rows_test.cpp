// Sorting, and values combined by row, at sizes where rows are combined by sorted lists: against plain loops.
#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "graph_has.h"
#include "ir/walk.h"
#include "lathe/device.h"
#include "schedule/schedule.h"
#include "tensor/impl.h"
#include "values.h"

namespace lathe {
namespace {

using testing::expect_values;
using testing::has;

constexpr std::uint64_t kSeed = 20240611;

std::vector<double> numbers(std::size_t n, std::mt19937_64& rng, int most = 1000) {
  std::vector<double> out(n);
  for (double& v : out) v = static_cast<double>(rng() % static_cast<std::uint64_t>(2 * most + 1)) - most;
  return out;
}
Tensor floats(const std::vector<double>& v, const Shape& shape) {
  return Tensor(v, shape, {.dtype = dtypes::float32});
}
Tensor ints(const std::vector<double>& v, const Shape& shape) {
  return Tensor(v, shape, {.dtype = dtypes::int32});
}

// Devices that walk in order, and those that sort.
class Rows : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_default_device(GetParam()); }
  void TearDown() override { set_default_device(""); }
  static bool walks() { return std::string(GetParam()) == "CPU"; }

  // Whether its kernels combine the lists of rows.
  static bool goes_by_lists(const Tensor& t) {
    Scope scope;
    ScheduleOptions options;
    options.fast_threads = [](const std::string&) { return walks(); };
    const Node target = node_of(t);
    const Schedule made = schedule({&target, 1}, options);
    return std::any_of(made.steps.begin(), made.steps.end(), [](const Step& step) {
      return step.origin.find("RaggedReduce") != std::string::npos;
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Rows, ::testing::Values("CPU", "REF"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Rows, SortIsStableAtEverySize) {
  std::mt19937_64 rng(kSeed);
  for (std::int64_t n : {2, 3, 31, 32, 33, 64, 65, 127, 500, 1031}) {
    std::vector<double> v = numbers(static_cast<std::size_t>(n) * 3, rng, 20);
    for (bool descending : {false, true}) {
      std::vector<double> keys, order;
      for (std::int64_t r = 0; r < 3; ++r) {
        std::vector<std::int64_t> at(static_cast<std::size_t>(n));
        std::iota(at.begin(), at.end(), 0);
        auto key = [&](std::int64_t i) { return v[static_cast<std::size_t>(r * n + i)]; };
        std::stable_sort(at.begin(), at.end(), [&](std::int64_t a, std::int64_t b) {
          return descending ? key(a) > key(b) : key(a) < key(b);
        });
        for (std::int64_t i : at) keys.push_back(key(i)), order.push_back(static_cast<double>(i));
      }
      auto [sorted, index] = floats(v, {3, n}).sort(1, descending);
      expect_values(sorted, keys);
      expect_values(index, order);
    }
  }
}

TEST_P(Rows, SortKnowsEveryDtypeAndTheOddValues) {
  const double inf = INFINITY, nan = NAN;
  for (DataType d : {dtypes::float16, dtypes::bfloat16, dtypes::float32, dtypes::float64}) {
    Tensor x = Tensor(std::vector<double>{0.0, nan, -inf, -0.0, inf, -1, 1, nan}, {8}, {.dtype = d});
    auto [up, up_index] = x.sort();
    expect_values(up, {-inf, -1, 0, 0, 1, inf, nan, nan});
    expect_values(up_index, {2, 5, 0, 3, 6, 4, 1, 7});
    auto [down, down_index] = x.sort(0, true);
    expect_values(down, {nan, nan, inf, 1, 0, 0, -1, -inf});
    expect_values(down_index, {1, 7, 4, 6, 0, 3, 5, 2});
  }
  for (DataType d : {dtypes::int8, dtypes::int16, dtypes::int32, dtypes::int64, dtypes::uint8, dtypes::uint16,
                     dtypes::uint32, dtypes::uint64}) {
    Tensor low = Tensor::full({1}, dtypes::min(d), {.dtype = d}),
           high = Tensor::full({1}, dtypes::max(d), {.dtype = d});
    Tensor x = Tensor::cat({high, Tensor(std::vector<double>{3, 1, 2}, {3}, {.dtype = d}), low, high});
    EXPECT_EQ(x.argsort().tolist(), (std::vector<double>{4, 2, 3, 1, 0, 5})) << d.name();
    EXPECT_EQ(x.argsort(0, true).tolist(), (std::vector<double>{0, 5, 1, 3, 2, 4})) << d.name();
  }
  expect_values(Tensor({true, false, true}).argsort(), {1, 0, 2});
}

TEST_P(Rows, TopkKeepsTheFirstOfEachMerge) {
  std::mt19937_64 rng(kSeed + 1);
  std::vector<double> v = numbers(700, rng, 5000), sorted = v;
  std::sort(sorted.rbegin(), sorted.rend());
  for (std::int64_t k : {1, 5, 40, 200}) {
    auto [top, where] = floats(v, {700}).topk(k);
    expect_values(top, {sorted.begin(), sorted.begin() + k});
    expect_values(floats(v, {700}).gather(0, where), {sorted.begin(), sorted.begin() + k});
  }
  EXPECT_EQ(floats(v, {700}).topk(0).first.shape()[0].value(), 0);
}

// Repeated and negative indices; rows without any.
std::vector<double> some_rows(std::int64_t t, std::int64_t rows, std::mt19937_64& rng) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < t; ++i) {
    auto r = static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(rows));
    switch (rng() % 6) {
      case 0: r = r - rows; break;
      case 1: r = rows / 2; break;
      default: break;
    }
    out.push_back(static_cast<double>(r));
  }
  return out;
}
std::int64_t wrapped(double i, std::int64_t rows) {
  auto r = static_cast<std::int64_t>(i);
  if (r < 0) r += rows;
  return r >= 0 && r < rows ? r : -1;
}

TEST_P(Rows, TheGradientOfAnEmbeddingIsASumOverLists) {
  std::mt19937_64 rng(kSeed + 2);
  const std::int64_t rows = 301, t = 257, width = 9;
  std::vector<double> index = some_rows(t, rows, rng),
                      g = numbers(static_cast<std::size_t>(t * width), rng, 50);
  Tensor table = floats(numbers(static_cast<std::size_t>(rows * width), rng), {rows, width});
  Tensor out = table.embedding(ints(index, {t}));
  Tensor grad = (out * floats(g, {t, width})).sum().gradient({table})[0];
  EXPECT_TRUE(has(grad, Op::Scatter));
  EXPECT_EQ(goes_by_lists(grad), !walks());
  std::vector<double> want(static_cast<std::size_t>(rows * width), 0), read;
  std::vector<double> held = table.tolist();
  for (std::int64_t i = 0; i < t; ++i)
    for (std::int64_t d = 0; d < width; ++d) {
      std::int64_t r = wrapped(index[static_cast<std::size_t>(i)], rows);
      read.push_back(r < 0 ? 0 : held[static_cast<std::size_t>(r * width + d)]);
      if (r >= 0) want[static_cast<std::size_t>(r * width + d)] += g[static_cast<std::size_t>(i * width + d)];
    }
  expect_values(out, read);
  expect_values(grad, want);
}

TEST_P(Rows, GradientsOfGradientsPassThroughLists) {
  std::mt19937_64 rng(kSeed + 3);
  const std::int64_t rows = 3000, t = 2000;
  std::vector<double> index = some_rows(t, rows, rng), x = numbers(static_cast<std::size_t>(rows), rng, 9);
  Tensor at = ints(index, {t});
  Tensor table = Tensor(x, {rows, 1}, {.dtype = dtypes::float64});
  // f = sum of y^3 over what is read: f'' v = 6 x count v.
  Tensor y = table.embedding(at);
  Tensor first = (y * y * y).sum().gradient({table})[0];
  Tensor second = first.sum().gradient({table})[0];
  EXPECT_TRUE(has(second, Op::Scatter));
  std::vector<double> want(static_cast<std::size_t>(rows), 0);
  for (double i : index)
    if (std::int64_t r = wrapped(i, rows); r >= 0)
      want[static_cast<std::size_t>(r)] += 6 * x[static_cast<std::size_t>(r)];
  expect_values(second, want);
}

TEST_P(Rows, ScatterWithEveryReduceAgreesWithLoops) {
  std::mt19937_64 rng(kSeed + 4);
  const std::int64_t batch = 3, rows = 1511, t = 1207;
  std::vector<double> index, src = numbers(static_cast<std::size_t>(batch * t), rng, 3),
                             self = numbers(static_cast<std::size_t>(batch * rows), rng, 3);
  for (std::int64_t b = 0; b < batch; ++b)
    for (double r : some_rows(t, rows, rng)) index.push_back(r);
  struct Case {
    const char* name;
    double unit;
    double (*join)(double, double);
  };
  const Case cases[] = {{"sum", 0, [](double a, double b) { return a + b; }},
                        {"amax", -1e30, [](double a, double b) { return std::max(a, b); }},
                        {"amin", 1e30, [](double a, double b) { return std::min(a, b); }}};
  Tensor tx = Tensor(self, {batch, rows}, {.dtype = dtypes::float64}), ti = ints(index, {batch, t}),
         ts = Tensor(src, {batch, t}, {.dtype = dtypes::float64});
  for (const Case& c : cases)
    for (bool include : {true, false}) {
      std::vector<double> want = self;
      std::vector<char> seen(want.size(), 0);
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t i = 0; i < t; ++i) {
          auto k = static_cast<std::size_t>(b * t + i);
          std::int64_t r = wrapped(index[k], rows);
          if (r < 0) continue;
          auto at = static_cast<std::size_t>(b * rows + r);
          want[at] = seen[at] || include ? c.join(want[at], src[k]) : src[k];
          seen[at] = 1;
        }
      Tensor got = tx.scatter_reduce(1, ti, ts, c.name, include);
      EXPECT_TRUE(has(got, Op::Scatter)) << c.name;
      EXPECT_EQ(goes_by_lists(got), !walks()) << c.name;
      expect_values(got, want);
    }
  std::vector<double> last = self;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < t; ++i)
      if (std::int64_t r = wrapped(index[static_cast<std::size_t>(b * t + i)], rows); r >= 0)
        last[static_cast<std::size_t>(b * rows + r)] = src[static_cast<std::size_t>(b * t + i)];
  expect_values(tx.scatter(1, ti, ts), last);
}

// The same function with few rows, which are compared one by one, and padded to many, which are sorted.
TEST_P(Rows, GradientsOfEveryReduceAgreeWithTheSmallForm) {
  std::mt19937_64 rng(kSeed + 5);
  const std::int64_t few = 7, t = 11, copies = 400;
  std::vector<double> index = some_rows(t, few, rng), src = numbers(static_cast<std::size_t>(t), rng, 2);
  std::vector<double> many_index, many_src;
  for (std::int64_t c = 0; c < copies; ++c)
    for (std::int64_t i = 0; i < t; ++i) {
      std::int64_t r = wrapped(index[static_cast<std::size_t>(i)], few);
      many_index.push_back(static_cast<double>(r < 0 ? few * copies : c * few + r));
      many_src.push_back(src[static_cast<std::size_t>(i)]);
    }
  for (const char* rule : {"sum", "mean", "prod", "amax", "amin"}) {
    auto gradient = [&](const std::vector<double>& at, const std::vector<double>& from, std::int64_t rows,
                        bool sorted) {
      auto n = static_cast<std::int64_t>(at.size());
      Tensor s = Tensor(from, {n}, {.dtype = dtypes::float64});
      Tensor base = Tensor::full({Size(rows)}, 1.5, {.dtype = dtypes::float64});
      Tensor out = base.scatter_reduce(0, ints(at, {n}), s, rule, false);
      EXPECT_TRUE(has(out, Op::Scatter)) << rule;
      EXPECT_EQ(goes_by_lists(out), sorted && !walks()) << rule;
      return (out * out).sum().gradient({s})[0].tolist();
    };
    std::vector<double> small = gradient(index, src, few, false),
                        large = gradient(many_index, many_src, few * copies, true);
    for (std::size_t i = 0; i < large.size(); ++i)
      EXPECT_NEAR(large[i], small[i % small.size()], 1e-9) << rule << " " << i;
  }
}

// More equal elements than a float16 can count.
TEST_P(Rows, ManyEqualExtremesShareAGradientThatAddsUpToOne) {
  const std::int64_t n = 5000;
  for (const char* rule : {"amax", "amin"}) {
    Tensor s = Tensor::full({n}, 2.0, {.dtype = dtypes::float16}).contiguous();
    Tensor base = Tensor::zeros({n}, {.dtype = dtypes::float16});
    Tensor out = base.scatter_reduce(0, Tensor::zeros({n}, {.dtype = dtypes::int32}), s, rule, false);
    ASSERT_TRUE(has(out, Op::Scatter)) << rule;
    EXPECT_EQ(goes_by_lists(out), !walks()) << rule;
    Tensor shares = out.sum().gradient({s})[0].cast(dtypes::float32);
    EXPECT_NEAR(shares.sum().item(), 1, 1e-2) << rule;
    EXPECT_EQ(shares.min().item(), shares.max().item()) << rule;
  }
}

TEST_P(Rows, IndexedAssignmentKeepsTheLastWriteAtEverySize) {
  std::mt19937_64 rng(kSeed + 6);
  for (std::int64_t rows : {5, 3001}) {
    const std::int64_t t = rows, width = 3;
    std::vector<double> index = some_rows(t, rows, rng),
                        value = numbers(static_cast<std::size_t>(t * width), rng);
    std::vector<double> want(static_cast<std::size_t>(rows * width), 7);
    Tensor x = Tensor::full({Size(rows), Size(width)}, 7.0).contiguous();
    x.setitem({ints(index, {t})}, floats(value, {t, width}));
    for (std::int64_t i = 0; i < t; ++i)
      if (std::int64_t r = wrapped(index[static_cast<std::size_t>(i)], rows); r >= 0)
        for (std::int64_t d = 0; d < width; ++d)
          want[static_cast<std::size_t>(r * width + d)] = value[static_cast<std::size_t>(i * width + d)];
    expect_values(x, want);
  }
}

TEST_P(Rows, MasksAndEmptyIndexListsWork) {
  std::mt19937_64 rng(kSeed + 7);
  std::vector<double> v = numbers(2000, rng, 10), chosen, at;
  for (std::size_t i = 0; i < v.size(); ++i)
    if (v[i] > 3) chosen.push_back(v[i]), at.push_back(static_cast<double>(i));
  Tensor x = floats(v, {2000});
  expect_values(x.masked_select(x > 3), chosen);
  expect_values((x > 3).nonzero().flatten(), at);
  expect_values(x.getitem({x > 3}), chosen);
  Tensor none = Tensor::zeros({0}, {.dtype = dtypes::int32}), table = floats(numbers(12, rng), {4, 3});
  EXPECT_EQ(to_string(table.embedding(none).shape()), "(0, 3)");
  expect_values(table.embedding(none).sum().gradient({table})[0], std::vector<double>(12, 0));
  expect_values(x.scatter(0, none, Tensor::zeros({0})), v);
  Tensor same = table.contiguous();
  same.setitem({none}, 5.0);
  expect_values(same, table.tolist());
  EXPECT_EQ(to_string(Tensor::zeros({0, 3}).getitem({none}).shape()), "(0, 3)");
}

}  // namespace
}  // namespace lathe
