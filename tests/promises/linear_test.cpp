// Compile time grows with the program and no faster, whatever it is made of: counted in nodes, kernels and
// instructions, never in seconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "engine/engine.h"
#include "ir/node.h"
#include "lathe/dev/compile_bench.h"
#include "lathe/lathe.h"

namespace lathe {
namespace {

Tensor numbers(const Shape& shape, double step) {
  std::int64_t n = 1;
  for (const Size& s : shape) n *= s.value();
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = step * static_cast<double>(i % 17);
  return Tensor(values, shape, {.dtype = dtypes::float32});
}

std::vector<Tensor> stacked(std::int64_t n) {
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < n; ++i) parts.push_back(numbers({8}, static_cast<double>(i)));
  return {Tensor::stack(parts)};
}

std::vector<Tensor> chain_of_sines(std::int64_t n) {
  Tensor x = numbers({64}, 0.1);
  for (std::int64_t i = 0; i < n; ++i) x = x.sin();
  return {x};
}

std::vector<Tensor> sum_of_sums(std::int64_t n) {
  Tensor w = numbers({4, 5}, 1), total = Tensor(0.0);
  for (std::int64_t i = 0; i < n; ++i) total = total + (w * static_cast<double>(i)).sum();
  return {total};
}

std::vector<Tensor> recurrent(std::int64_t steps, bool gradients) {
  constexpr std::int64_t kWidth = 8;
  Tensor of_input = numbers({kWidth, 4 * kWidth}, 0.01), of_state = numbers({kWidth, 4 * kWidth}, 0.02);
  Tensor inputs = numbers({steps, 2, kWidth}, 0.1);
  Tensor state = numbers({2, kWidth}, 0), cell = numbers({2, kWidth}, 0);
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < steps; ++t) {
    Tensor gates = inputs[t].matmul(of_input) + state.matmul(of_state);
    std::vector<Tensor> g = gates.chunk(4, 1);
    cell = g[0].sigmoid() * cell + g[1].sigmoid() * g[2].tanh();
    state = g[3].sigmoid() * cell.tanh();
    outputs.push_back(state);
  }
  Tensor all = Tensor::stack(outputs);
  return gradients ? all.sum().gradient({of_input, of_state}) : std::vector{all};
}

struct Counts {
  std::uint64_t nodes, kernels, unique, instructions;
};
Counts counts_of(const std::function<std::vector<Tensor>(std::int64_t)>& build, std::int64_t n) {
  const std::uint64_t before = interner_stats().created + interner_stats().hits;
  const dev::CompileReport report =
      dev::bench_compile("program", [&] { return build(n); }, {.machine_code = false});
  return {interner_stats().created + interner_stats().hits - before, report.kernels, report.unique_kernels,
          report.instructions};
}

TEST(Promises, CompilingGrowsLinearlyWithTheProgramWhateverItsOps) {
  struct Program {
    const char* name;
    std::function<std::vector<Tensor>(std::int64_t)> build;
    std::int64_t size;
    std::uint64_t
        most_unique;  // kernels that are compiled, however long the program is; 0: one or two a step
  };
  const Program programs[] = {
      {"stack", stacked, 512, 6},
      {"chain of sines", chain_of_sines, 192, 3},
      {"sum of sums", sum_of_sums, 128, 40},
      {"recurrent net", [](std::int64_t n) { return recurrent(n, false); }, 64, 0},
      {"gradients of a recurrent net", [](std::int64_t n) { return recurrent(n, true); }, 32, 0},
  };
  for (const Program& p : programs) {
    const Counts once = counts_of(p.build, p.size), twice = counts_of(p.build, 2 * p.size);
    const auto within = [&](std::uint64_t a, std::uint64_t b, const char* what) {
      EXPECT_LE(static_cast<double>(b), 2.4 * static_cast<double>(a)) << what << " of " << p.name;
    };
    within(once.nodes, twice.nodes, "nodes asked for");
    within(once.kernels, twice.kernels, "kernels");
    within(once.instructions, twice.instructions, "instructions");
    if (p.most_unique > 0) {
      EXPECT_LE(twice.unique, p.most_unique) << p.name;
    }
  }
}

// A body of many instructions is not copied many times.
TEST(Promises, SmallGradientProgramsAreShortKernels) {
  struct Case {
    const char* name;
    Shape x, w;
    std::function<Tensor(const Tensor&, const Tensor&)> value;
  };
  const Case cases[] = {
      {"transposed convolution",
       {3, 1, 5, 4},
       {1, 5, 1, 2},
       [](const Tensor& x, const Tensor& w) {
         return x.conv_transpose2d(w, {}, {.stride = {1, 2}}).cos().sin().square();
       }},
      {"convolution",
       {2, 1, 9, 9},
       {6, 1, 4, 4},
       [](const Tensor& x, const Tensor& w) {
         return x.conv2d(w, {}, {.stride = {2}, .padding = {2}}).sin().gelu().cos();
       }},
  };
  for (const Case& c : cases) {
    const auto build = [&] {
      Tensor x = numbers(c.x, 0.1), w = numbers(c.w, 0.2);
      return c.value(x, w).mean().gradient({x, w});
    };
    for (const char* device : {"NULL:x86-64-v3", "NULL:x86-64-v4"})  // whatever CPU this is
      for (const dev::KernelReport& k :
           dev::bench_compile(c.name, build, {.device = device, .machine_code = false}).by_kernel)
        EXPECT_LE(k.instructions, 20000u)
            << k.name << " of " << c.name << " on " << device << ": " << k.options;
  }
}

// What a kernel cannot hold is split between several.
TEST(Promises, ManySumsBeforeOneRealizeAreRight) {
  for (std::int64_t n : {64, 66, 70, 200}) {
    const std::vector<Tensor> total = sum_of_sums(n);
    EXPECT_EQ(
        total[0].item(), static_cast<double>(n * (n - 1) / 2) *
                             [] {
                               double sum = 0;
                               for (int i = 0; i < 20; ++i) sum += i % 17;
                               return sum;
                             }())
        << n;
  }
  // The same for every row: lanes along the rows, a reduce after the other inside.
  Tensor w = numbers({24, 5}, 1), total = Tensor::zeros({24});
  for (int i = 0; i < 90; ++i) total = total + (w * i).sum({1});
  const std::vector<double> sums = w.sum({1}).tolist(), got = total.tolist();
  for (std::size_t r = 0; r < sums.size(); ++r) EXPECT_EQ(got[r], sums[r] * 90 * 89 / 2) << r;
}

// Every pair is a cycle that a copy breaks; all are broken at once.
TEST(Promises, ManyTensorsAreSwappedBeforeOneRealize) {
  constexpr int kPairs = 1100;
  std::vector<std::pair<Tensor, Tensor>> pairs;
  std::vector<Tensor> all;
  for (int i = 0; i < kPairs; ++i) {
    pairs.emplace_back(Tensor({1.0 * i, 2.0}).realize(), Tensor({3.0 * i, 4.0}).realize());
    auto& [a, b] = pairs.back();
    Tensor to_a = b * 2, to_b = a + 1;
    a.assign(to_a);
    b.assign(to_b);
    all.push_back(a);
    all.push_back(b);
  }
  Tensor::realize_all(all);
  for (int i = 0; i < kPairs; ++i) {
    ASSERT_EQ(pairs[static_cast<std::size_t>(i)].first.tolist(), (std::vector<double>{6.0 * i, 8.0})) << i;
    ASSERT_EQ(pairs[static_cast<std::size_t>(i)].second.tolist(), (std::vector<double>{i + 1.0, 3.0})) << i;
  }
}

struct DefaultDeviceScope {
  explicit DefaultDeviceScope(const char* device) { set_default_device(device); }
  ~DefaultDeviceScope() { set_default_device(""); }
};

// 12 of 2 elements that are all moved, so that each is a range of its kernels, and 28 of one.
TEST(Promises, TensorsMayHaveAnyNumberOfAxes) {
  constexpr int kBits = 12, kSize = 1 << kBits;
  for (const char* device : {"CPU", "REF"}) {
    const DefaultDeviceScope scope(device);
    Shape many(28, Size(1));
    std::vector<std::int64_t> back, odd;
    for (int i = 0; i < kBits; ++i) {
      many.insert(many.begin() + 2 * i, 2);
      back.push_back(2 * (kBits - 1 - i));
      if (i % 2 == 1) odd.push_back(i);
    }
    std::vector<std::int64_t> order = back;
    for (std::int64_t a = 0; a < 40; ++a)
      if (std::ranges::find(back, a) == back.end()) order.push_back(a);
    // Axis i holds bit i of the position, the others 0; the odd ones are flipped.
    const Tensor x = numbers({kSize}, 1).reshape(many).permute(order).flip(odd) * 2;
    EXPECT_EQ(x.ndim(), 40);
    const std::vector<double> from = numbers({kSize}, 1).tolist(), got = x.tolist();
    const std::vector<double> sums = x.sum(odd).tolist(), running = x.cumsum(kBits - 1).tolist();
    for (int at = 0; at < kSize; ++at) {
      const auto source = [&](int position) {
        int out = 0;
        for (int i = 0; i < kBits; ++i) {
          const int bit = (position >> (kBits - 1 - i) & 1) ^ (i % 2);
          out |= bit << i;
        }
        return 2 * from[static_cast<std::size_t>(out)];
      };
      ASSERT_EQ(got[static_cast<std::size_t>(at)], source(at)) << device << " " << at;
      const double before = at % 2 == 1 ? source(at - 1) : 0;
      ASSERT_EQ(running[static_cast<std::size_t>(at)], before + source(at)) << device << " " << at;
    }
    ASSERT_EQ(sums.size(), std::size_t{1} << (kBits / 2));
    double total = 0, all = 0;
    for (const double v : sums) total += v;
    for (const double v : from) all += 2 * v;
    EXPECT_EQ(total, all) << device;
  }
}

TEST(Promises, StacksOfManyAreRight) {
  for (std::int64_t n : {1, 31, 32, 33, 100, 1100}) {
    Tensor all = stacked(n)[0];
    ASSERT_EQ(to_string(all.shape()), "(" + std::to_string(n) + ", 8)");
    const std::vector<double> got = all.tolist();
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < 8; ++j)
        ASSERT_EQ(got[static_cast<std::size_t>(i * 8 + j)], static_cast<double>(i * j))
            << n << " " << i << " " << j;
  }
  std::vector<Tensor> parts;
  for (int i = 0; i < 70; ++i)
    parts.push_back(Tensor::full({1 + i % 3, 2}, i, {.dtype = i < 40 ? dtypes::int32 : dtypes::float32}));
  Tensor joined = Tensor::cat(parts, 0);
  EXPECT_EQ(joined.dtype(), dtypes::float32);
  EXPECT_EQ(joined.sum().item(), [] {
    double sum = 0;
    for (int i = 0; i < 70; ++i) sum += 2.0 * i * (1 + i % 3);
    return sum;
  }());
  Tensor x = numbers({3}, 1);
  std::vector<Tensor> scaled;
  for (int i = 0; i < 50; ++i) scaled.push_back(x * i);
  EXPECT_EQ(Tensor::stack(scaled).sum().gradient({x})[0].tolist(), std::vector<double>(3, 50 * 49 / 2));
}

// Work is counted in nodes that were asked for, of which a second is enough for millions.
std::uint64_t nodes_asked() {
  const InternerStats stats = interner_stats();
  return stats.created + stats.hits;
}
std::uint64_t last_look = 0, longest_wait = 0;

// R19: Ctrl-C ends a compile within a second, because something looks for it often enough.
TEST(Promises, WorkBetweenTwoLooksForAnInterruptIsBounded) {
  constexpr std::uint64_t kMost = 100'000;
  for (const auto& build :
       {std::function([] { return stacked(1000); }), std::function([] { return chain_of_sines(400); }),
        std::function([] { return recurrent(32, true); })}) {
    last_look = nodes_asked();
    longest_wait = 0;
    watch_interrupt_checks([] {
      const std::uint64_t now = nodes_asked();
      longest_wait = std::max(longest_wait, now - last_look);
      last_look = now;
    });
    const dev::CompileReport report = dev::bench_compile("program", build, {.machine_code = false});
    watch_interrupt_checks(nullptr);
    longest_wait = std::max(longest_wait, nodes_asked() - last_look);
    fmt::print("{} kernels, {} nodes, at most {} between two looks\n", report.kernels, report.nodes,
               longest_wait);
    EXPECT_LT(longest_wait, kMost);
    EXPECT_GT(longest_wait, 0u);
  }
}

}  // namespace
}  // namespace lathe
