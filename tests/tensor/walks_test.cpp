// Running values, long sorts and top-k, on a device that walks in order and on one that does not: against
// plain loops.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "codegen/codegen.h"
#include "engine/engine.h"
#include "graph_has.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "lathe/device.h"
#include "schedule/schedule.h"
#include "target/target.h"
#include "tensor/impl.h"
#include "values.h"

namespace lathe {
namespace {

using testing::expect_values;
using testing::has;

constexpr std::uint64_t kSeed = 20261115;

class Walks : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_default_device(GetParam()); }
  void TearDown() override { set_default_device(""); }
  static bool walks() { return std::string(GetParam()) == "CPU"; }
};
INSTANTIATE_TEST_SUITE_P(Devices, Walks, ::testing::Values("CPU", "REF"),
                         [](const auto& info) { return std::string(info.param); });

std::vector<double> numbers(std::int64_t n, std::mt19937_64& rng, int most) {
  std::vector<double> out(static_cast<std::size_t>(n));
  for (double& v : out) v = static_cast<double>(rng() % static_cast<std::uint64_t>(2 * most + 1)) - most;
  return out;
}

// outer, steps, inner: running values along the middle.
template <class Join>
std::vector<double> running(const std::vector<double>& v, std::int64_t steps, std::int64_t inner, Join join) {
  std::vector<double> out = v;
  for (std::size_t i = 0; i < v.size(); ++i)
    if (static_cast<std::int64_t>(i) / inner % steps != 0)
      out[i] = join(out[i - static_cast<std::size_t>(inner)], v[i]);
  return out;
}

// What a running value does not depend on beside its own axis is stored in loops of its own.
TEST_P(Walks, RunningValuesOfConstantsAndOfExpandedValuesAgreeWithLoops) {
  std::mt19937_64 rng(kSeed);
  const auto sum = [](double a, double b) { return a + b; };
  for (auto [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{20, 30}, {1, 7}, {7, 1}, {3, 8}, {17, 19}, {2, 33}}) {
    auto at = [&, columns = columns](auto value) {
      std::vector<double> out(static_cast<std::size_t>(rows * columns));
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = value(static_cast<std::int64_t>(i) / columns, static_cast<std::int64_t>(i) % columns);
      return out;
    };
    const std::vector<double> down = numbers(rows, rng, 3), across = numbers(columns, rng, 3);
    struct Kind {
      const char* name;
      Tensor x;
      std::vector<double> values;
    };
    const Kind kinds[] = {
        {"constant", Tensor::full({rows, columns}, 2.0), at([](auto, auto) { return 2.0; })},
        {"one column", Tensor(down, {rows, 1}).expand({rows, columns}),
         at([&](auto r, auto) { return down[static_cast<std::size_t>(r)]; })},
        {"one row", Tensor(across, {1, columns}).expand({rows, columns}),
         at([&](auto, auto c) { return across[static_cast<std::size_t>(c)]; })},
    };
    for (const Kind& k : kinds) {
      SCOPED_TRACE(::testing::Message() << k.name << " " << rows << " x " << columns << " seed " << kSeed);
      expect_values(k.x.cumsum(0), running(k.values, rows, columns, sum));
      expect_values(k.x.cumsum(1), running(k.values, columns, 1, sum));
      expect_values(k.x.cummax(0).first,
                    running(k.values, rows, columns, [](double a, double b) { return std::max(a, b); }));
      Tensor leaf = Tensor(k.values, {rows, columns});
      // The gradient of a plain sum is a running sum of ones.
      expect_values(leaf.cumsum(0).sum().gradient({leaf})[0],
                    at([&](auto r, auto) { return static_cast<double>(rows - r); }));
    }
  }
}

TEST_P(Walks, RunningValuesAgreeWithLoopsOnEveryAxisAndDtype) {
  std::mt19937_64 rng(kSeed);
  struct Sizes {
    std::int64_t outer, steps, inner;
  };
  for (Sizes s : {Sizes{1, 1, 1}, Sizes{3, 2, 1}, Sizes{5, 17, 1}, Sizes{4, 64, 3}, Sizes{1, 300, 7},
                  Sizes{8, 130, 16}})
    for (DataType d : {dtypes::float32, dtypes::float64, dtypes::int32, dtypes::int64, dtypes::float16}) {
      std::vector<double> v = numbers(s.outer * s.steps * s.inner, rng, 3), signs = v;
      for (double& x : signs) x = x > 0 ? 1 : -1;
      auto tensor = [&](const std::vector<double>& from) {
        return Tensor(from, {s.outer, s.steps, s.inner}, {.dtype = d});
      };
      Tensor x = tensor(v);
      EXPECT_TRUE(has(x.cumsum(1), Op::Scan));
      expect_values(x.cumsum(1), running(v, s.steps, s.inner, [](double a, double b) { return a + b; }));
      expect_values(tensor(signs).cumprod(1),
                    running(signs, s.steps, s.inner, [](double a, double b) { return a * b; }));
      expect_values(x.cummax(1).first,
                    running(v, s.steps, s.inner, [](double a, double b) { return std::max(a, b); }));
      expect_values(x.cummin(1).first,
                    running(v, s.steps, s.inner, [](double a, double b) { return std::min(a, b); }));
    }
  EXPECT_EQ(to_string(Tensor::zeros({3, 0}).cumsum(1).shape()), "(3, 0)");
  EXPECT_EQ(to_string(Tensor::zeros({0, 3}).cumsum(1).shape()), "(0, 3)");
  expect_values(Tensor({1.0, NAN, 2.0}).cummax().first, {1, NAN, NAN});
  expect_values(Tensor({1.0, NAN, 2.0}).cumsum(), {1, NAN, NAN});
}

TEST_P(Walks, ALongRunningSumIsMadeOfPieces) {
  std::mt19937_64 rng(kSeed + 1);
  for (std::int64_t n : {32768, 70001}) {
    std::vector<double> v = numbers(n, rng, 9);
    Tensor x = Tensor(v, {n}, {.dtype = dtypes::float32});
    expect_values(x.cumsum(), running(v, n, 1, [](double a, double b) { return a + b; }));
    Tensor g = x.cumsum().sum().gradient({x})[0];
    EXPECT_EQ(g.getitem({0}).item(), static_cast<double>(n));
    EXPECT_EQ(g.getitem({-1}).item(), 1);
  }
}

// d(out)/dx by taking each element away, with no zero, one and several.
TEST_P(Walks, GradientsOfRunningProductsKnowZeros) {
  for (const std::vector<double>& v :
       {std::vector<double>{2, -1, 3, 0.5}, {2, 0, 3, -1}, {0, 2, 0, 5}, {1, 2, 3, 0}, {0, 0, 0, 0}}) {
    const std::size_t n = v.size();
    std::vector<double> want(n, 0), weight{1, 2, 3, 4};
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = j; i < n; ++i) {
        double product = weight[i];
        for (std::size_t k = 0; k <= i; ++k)
          if (k != j) product *= v[k];
        want[j] += product;
      }
    Tensor x = Tensor(v, {4}, {.dtype = dtypes::float64});
    expect_values((x.cumprod() * Tensor(weight, {4}, {.dtype = dtypes::float64})).sum().gradient({x})[0],
                  want);
  }
}

TEST_P(Walks, GradientsOfRunningExtremesGoToTheElementThatWasIt) {
  Tensor x = Tensor(std::vector<double>{1, 4, 2, 5, 3}, {5}, {.dtype = dtypes::float64});
  Tensor weight = Tensor(std::vector<double>{1, 2, 3, 4, 5}, {5}, {.dtype = dtypes::float64});
  expect_values((x.cummax().first * weight).sum().gradient({x})[0], {1, 5, 0, 9, 0});
  expect_values((x.cummin().first * weight).sum().gradient({x})[0], {15, 0, 0, 0, 0});
}

TEST_P(Walks, LogcumsumexpNeitherOverflowsNorLosesSmallTerms) {
  std::vector<double> v, want;
  double top = -INFINITY, sum = 0;
  for (int i = 0; i < 77; ++i) {
    v.push_back(i % 13 == 5  ? 900.0 * (i / 13)
                : i % 7 == 0 ? -INFINITY
                             : -3.0 * (i % 5) - (i < 5 ? 1000 : 0));
    const double next = std::max(top, v.back());
    sum = next == -INFINITY ? 0 : sum * std::exp(top - next) + std::exp(v.back() - next);
    top = next;
    want.push_back(sum == 0 ? -INFINITY : std::log(sum) + top);
  }
  Tensor out = Tensor(v, {7, 11}, {.dtype = dtypes::float64}).reshape({77}).logcumsumexp();
  std::vector<double> got = out.tolist();
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(got[i] == want[i] || std::abs(got[i] - want[i]) < 1e-9)
        << i << ": " << got[i] << " " << want[i];
}

TEST_P(Walks, LongSortsAreStableForKeysOfEveryWidth) {
  std::mt19937_64 rng(kSeed + 2);
  for (DataType d :
       {dtypes::float32, dtypes::float64, dtypes::int64, dtypes::uint32, dtypes::int16, dtypes::uint8})
    for (std::int64_t n : {129, 1000, walks() ? 9001 : 300}) {
      const std::int64_t rows = n < 2000 ? 3 : 1;
      std::vector<double> v = numbers(rows * n, rng, 60), order;
      for (double& x : v) x = d.is_unsigned() ? x + 60 : x;
      for (std::int64_t r = 0; r < rows; ++r) {
        std::vector<std::int64_t> at(static_cast<std::size_t>(n));
        std::iota(at.begin(), at.end(), 0);
        auto key = [&](std::int64_t i) { return v[static_cast<std::size_t>(r * n + i)]; };
        std::stable_sort(at.begin(), at.end(),
                         [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
        for (std::int64_t i : at) order.push_back(static_cast<double>(i));
      }
      expect_values(Tensor(v, {rows, n}, {.dtype = d}).argsort(1), order);
    }
}

TEST_P(Walks, ASortOfManyWalksAgreesWithLoops) {
  std::mt19937_64 rng(kSeed + 3);
  const std::int64_t n = walks() ? 40001 : 4001;
  std::vector<double> v(static_cast<std::size_t>(n)), sorted;
  for (double& x : v) x = static_cast<double>(static_cast<float>(rng() % 1000003) - 500000.0f);
  sorted = v;
  std::sort(sorted.begin(), sorted.end());
  expect_values(Tensor(v, {n}, {.dtype = dtypes::float32}).sort().first, sorted);
}

// Equal keys in different blocks: the first of them are kept, in their order.
TEST_P(Walks, TopkFromBlocksKeepsTheFirstOfEqualKeys) {
  std::mt19937_64 rng(kSeed + 4);
  for (std::int64_t n : {1024, 1500, 5003})
    for (std::int64_t k : {1, 3, 10}) {
      std::vector<double> v = numbers(2 * n, rng, 200), want;
      if (n == 1500) v[7] = v[1400] = NAN;
      for (std::int64_t r = 0; r < 2; ++r) {
        std::vector<std::int64_t> at(static_cast<std::size_t>(n));
        std::iota(at.begin(), at.end(), 0);
        auto key = [&](std::int64_t i) {
          const double x = v[static_cast<std::size_t>(r * n + i)];
          return std::isnan(x) ? INFINITY : x;
        };
        std::stable_sort(at.begin(), at.end(),
                         [&](std::int64_t a, std::int64_t b) { return key(a) > key(b); });
        for (std::int64_t i = 0; i < k; ++i)
          want.push_back(static_cast<double>(at[static_cast<std::size_t>(i)]));
      }
      expect_values(Tensor(v, {2, n}, {.dtype = dtypes::float32}).topk(k).second, want);
    }
}

// More values than a walk takes: several walks, each with rows of its own.
TEST_P(Walks, ManyValuesIntoFewRowsAreSeveralWalks) {
  std::mt19937_64 rng(kSeed + 5);
  const std::int64_t n = 40003, rows = 97;
  std::vector<double> at(static_cast<std::size_t>(n)), value = numbers(n, rng, 5), sum(97, 1), last(97, -1);
  for (std::size_t i = 0; i < at.size(); ++i) {
    at[i] = static_cast<double>(rng() % 90);
    sum[static_cast<std::size_t>(at[i])] += value[i];
    last[static_cast<std::size_t>(at[i])] = value[i];
  }
  Tensor index = Tensor(at, {n}, {.dtype = dtypes::int32}),
         x = Tensor(value, {n}, {.dtype = dtypes::float32});
  expect_values(Tensor::ones({rows}).scatter_reduce(0, index, x, "sum"), sum);
  expect_values(Tensor::full({Size(rows)}, -1.0).scatter(0, index, x), last);
}

// Whatever shapes the parts go through, what was computed is known by its expression: a tensor that takes
// part in a gradient keeps that, and reads what is in memory.
TEST_P(Walks, WhatWasComputedIsNotComputedAgain) {
  std::mt19937_64 rng(kSeed + 6);
  for (std::int64_t n : {64, 128, 200}) {
    Tensor x = Tensor(numbers(3 * n, rng, 5), {3, n}, {.dtype = dtypes::float32}).requires_grad_();
    Tensor index =
        Tensor(numbers(3 * n, rng, 2), {3, n}, {.dtype = dtypes::float32}).cast(dtypes::int32).abs();
    for (const Tensor& y : {x.cumsum(1), x.cumsum(0), x.sort(1).first, x.topk(3, 1).first,
                            Tensor::zeros({3, 5}).scatter_reduce(1, index, x, "sum")}) {
      Tensor(y).realize();
      const std::uint64_t kernels = engine::counters().kernels;
      y.tolist();
      EXPECT_EQ(engine::counters().kernels, kernels) << to_string(y.shape());
      Tensor twice = y * 2;
      twice.realize();
      EXPECT_EQ(engine::counters().kernels, kernels + 1) << to_string(y.shape());
    }
  }
}

// ---- one graph for every device

// Everything that used to be built by what the device is best at, over inputs of their own.
std::vector<Node> graphs_on(const std::string& device) {
  auto floats = [&](const Shape& shape) { return Tensor::empty(shape, {dtypes::float32, device}); };
  auto ints = [&](const Shape& shape) { return Tensor::empty(shape, {dtypes::int32, device}); };
  std::vector<Node> out;
  auto add = [&](const Tensor& t) { out.push_back(node_of(t)); };
  auto add_with_gradient = [&](const Tensor& t, const Tensor& x) {
    add(t);
    add((t * t).sum().gradient({x})[0]);
  };
  for (const Shape& shape : {Shape{5}, Shape{3, 200}, Shape{2, 40000}, Shape{4, 70000}}) {
    Tensor x = floats(shape);
    add_with_gradient(x.cumsum(-1), x);
    add_with_gradient(x.cumprod(0), x);
    add_with_gradient(x.cummax(-1).first, x);
    add(x.cummin(0).second);
    add_with_gradient(x.sort(-1).first, x);
    add(x.argsort(-1, true));
    add_with_gradient(x.topk(2, -1).first, x);
    add((x > 0).nonzero(7));
  }
  for (std::int64_t rows : {3, 1000}) {
    Tensor table = floats({rows, 9}), wide = floats({1 << 16, 64}), index = ints({2, 500});
    add_with_gradient(table.getitem({index}), table);
    add_with_gradient(wide.embedding(index), wide);
    for (const char* rule : {"sum", "mean", "prod", "amax"}) {
      Tensor from = floats({500, 9});
      add_with_gradient(table.scatter_reduce(0, ints({500, 9}), from, rule), from);
    }
    add(table.scatter(0, ints({500, 9}), floats({500, 9})));
  }
  return out;
}

// The text of graphs whose buffers are numbered by first visit and stand on no device.
std::string text_without_devices(const std::vector<Node>& graphs) {
  NodeMap<Node> plain;
  std::int64_t number = 0;
  for (Node n : toposort(graphs))
    if (n.is(Op::Buffer)) plain[n] = buffer_with_id(++number, n.dtype(), buffer_size(n), "ANY");
  std::string text;
  for (Node graph : graphs) text += print_graph(substitute(graph, plain)) + "\n";
  return text;
}

TEST(OneGraph, IsTheSameOnEveryDevice) {
  Scope scope;
  const std::string cpu = text_without_devices(graphs_on("CPU"));
  EXPECT_NE(cpu.find("Scan"), std::string::npos);
  EXPECT_NE(cpu.find("Scatter"), std::string::npos);
  EXPECT_NE(cpu.find("Sort"), std::string::npos);
  for (const char* device : {"REF", "NULL:sm_90a", "NULL:x86-64-v3"})
    EXPECT_TRUE(text_without_devices(graphs_on(device)) == cpu) << device;
}

TEST(OneGraph, MovedToAnotherDeviceDiffersInWhereItsInputsAre) {
  Scope scope;
  Tensor x = Tensor::empty({3, 5000}), there = x.to("REF");
  auto work = [](const Tensor& t) {
    Tensor sorted = t.sort(1).first;
    return sorted.cumsum(1) + t.gather(1, t.argsort(1)).cumprod(1);
  };
  // The copy taken away, what is left is the graph of the input where it was.
  const Node copy = node_of(there);
  ASSERT_TRUE(copy.is(Op::Copy));
  NodeMap<Node> back;
  back[copy] = node_of(x);
  EXPECT_EQ(substitute(node_of(work(there)), back), node_of(work(x)));
}

// Each way of computing them, whatever the device: walks, and everything but walks.
TEST(OneGraph, SchedulingWritesItAsTheDeviceIsBestAt) {
  Scope scope;
  const Shape shape{4, 3000};
  Tensor x = Tensor::empty(shape), index = Tensor::empty(shape, {.dtype = dtypes::int32});
  const std::vector<Node> targets{node_of(x.cumsum(1)), node_of(x.argsort(1)),
                                  node_of(Tensor::zeros({4, 50}).scatter_reduce(1, index, x, "sum", false))};
  for (bool fast : {true, false}) {
    ScheduleOptions options;
    options.fast_threads = [&](const std::string&) { return fast; };
    std::string origins;
    for (const Step& step : schedule(targets, options).steps) origins += step.origin + ";";
    EXPECT_EQ(origins.find("Scan") != std::string::npos, fast) << origins;
    EXPECT_EQ(origins.find("Scatter") != std::string::npos, fast) << origins;
    EXPECT_EQ(origins.find("Sort"), std::string::npos) << origins;
  }
}

// However operands lie in memory: a kernel that is not walked takes rows * values steps.
TEST(WalksOnCpus, EveryScatterAndScanIsWalked) {
  Scope scope;
  const std::int64_t b = 12, n = 24, rows = 30;
  Tensor x = Tensor::empty({b, n}), i = Tensor::empty({b, n}, {.dtype = dtypes::int32});
  using View = Tensor (*)(const Tensor&);
  const View views[] = {
      [](const Tensor& t) { return t; },
      [](const Tensor& t) { return t.reshape({24, 12}).transpose(0, 1); },
      [](const Tensor& t) { return t.reshape({2, 6, 4, 6}).permute({2, 0, 3, 1}).reshape({12, 24}); },
      [](const Tensor& t) { return t.flip({0, 1}); },
      [](const Tensor& t) { return t.shrink({{1, 12}, {3, 20}}).pad({{1, 0}, {0, 7}}); },
      [](const Tensor& t) { return t.shrink({{0, 1}, {0, 24}}).expand({12, 24}); },
      [](const Tensor& t) { return t.shrink({{0, 12}, {0, 1}}).expand({12, 24}); },
      [](const Tensor& t) { return (t * 3 + 1).reshape({288}).reshape({12, 24}); },
      [](const Tensor& t) { return t.cast(dtypes::float64).cast(t.dtype()); },
  };
  std::vector<Tensor> made;
  for (View of_x : views)
    for (View of_i : views) {
      Tensor values = of_x(x), index = of_i(i);
      for (const char* rule : {"sum", "amax", "prod"})
        made.push_back(Tensor::zeros({b, rows}).scatter_reduce(1, index, values, rule, false));
      made.push_back(Tensor::zeros({rows, n}).scatter(0, index, values));
      made.push_back(Tensor::zeros({b * n}).scatter(0, index.flatten(), values.flatten()));
      Tensor table = Tensor::empty({rows, 5});
      made.push_back(table.getitem({index}).sum().gradient({table})[0]);
      for (std::int64_t axis : {0, 1}) {
        made.push_back(values.cumsum(axis));
        made.push_back(values.cummax(axis).second);
        auto in_groups = [&](Op op, const Tensor& of, const Tensor& by, std::int64_t groups) {
          return make_like(of, scan_by(op, node_of(of), axis, node_of(by), index_const(groups)));
        };
        made.push_back(in_groups(Op::Add, index, (index * 2) & 15, 16));
        made.push_back(in_groups(Op::Max, values, index, rows));
      }
    }
  int walks = 0;
  for (const Tensor& t : made) {
    const Node target = node_of(t);
    for (const Step& step : schedule({&target, 1}).steps) {
      if (step.is_copy() ||
          (step.origin.find("Scatter") == std::string::npos && step.origin.find("Scan") == std::string::npos))
        continue;
      for (const char* name : {"x86-64-v2", "x86-64-v4"}) {
        const Target cpu = named_target(name);
        const std::vector<Opt> options = choose_options(step.ast, cpu);
        bool reduces = false;
        for (Node n : toposort(apply_options(step.ast, options, cpu))) reduces |= n.is(Op::Reduce);
        ASSERT_FALSE(reduces) << step.name << " " << to_string(options) << "\n" << print_graph(step.ast);
        ++walks;
      }
    }
  }
  EXPECT_GT(walks, 1000);
}

}  // namespace
}  // namespace lathe
