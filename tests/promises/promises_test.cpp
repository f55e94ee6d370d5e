// Promises about the whole engine that are counted: kernels, buffers, bytes, rewrites. The R numbers are
// those of the requirements.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "base/interrupt.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/engine.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "lathe/dev/interrupt.h"
#include "lathe/lathe.h"
#include "rewrite/rewriter.h"

namespace lathe {
namespace {

struct CountingTrace : RewriteTrace {
  void applied(std::string_view, std::string_view, Node, Node) override { ++count; }
  std::uint64_t count = 0;
};
template <class Function>
std::uint64_t rewrites_of(Function&& function) {
  CountingTrace trace;
  const engine::ExperimentScope scope({.trace = &trace});
  function();
  return trace.count;
}

struct StepNames : StepSink {
  void kernel(const StepInfo& step, Node& /*kernel*/) override { seen.emplace_back(step.name); }
  void program(const StepInfo& step, Program& /*program*/) override { seen.emplace_back(step.name); }
  std::vector<std::string> seen;
};

// out[i] = a chain of n / 4 steps, each a load at an index of its own and three ops.
Node long_kernel(std::int64_t n) {
  Node i = range(index_const(64), 0, RangeKind::Global);
  Node in = param(dtypes::Float32, 1, 64 * (n + 1));
  Node value = number(dtypes::Float32, 1);
  for (std::int64_t k = 0; k < n / 4; ++k)
    value = apply(Op::Sqrt,
                  value * load(in, i * index_const(n / 4) + index_const(k)) + number(dtypes::Float32, 1));
  Node effect = end(store(param(dtypes::Float32, 0, 64), i, value), {&i, 1});
  return sink({&effect, 1});
}

// R1: the work of a kernel grows with its size and no faster.
TEST(Promises, RewritesGrowLinearlyWithTheKernel) {
  Scope scope;
  Target target = named_target("x86-64-v3");
  double last = 0;
  for (std::int64_t n : {100, 1000, 10000}) {
    Node kernel = long_kernel(n);
    auto size = static_cast<double>(toposort(kernel).size());
    auto count =
        static_cast<double>(rewrites_of([&] { lower_kernel(kernel, {}, engine::compile_for(target), "k"); }));
    EXPECT_GT(count, 0) << n;
    if (last > 0) {
      EXPECT_LE(count / size, last * 1.3 + 0.1) << "a node, at " << n << " nodes";
    }
    last = count / size;
  }
}

// R2: one pass after the other, each once, however large the kernel is.
TEST(Promises, PassesPerKernelAreAConstant) {
  Scope scope;
  Target target = named_target("x86-64-v3");
  std::vector<std::string> first;
  for (std::int64_t n : {100, 2000}) {
    StepNames names;
    Compile compile(target);
    compile.sink = &names;
    lower_kernel(long_kernel(n), {}, compile, "k");
    EXPECT_EQ(std::count(names.seen.begin(), names.seen.end(), "linearize"), 1);
    if (first.empty()) first = names.seen;
    EXPECT_EQ(names.seen, first);
  }
}

// R5: what is computed in two pieces is what is computed at once, gradients too; a cut where a value is
// stored anyway costs no kernel.
TEST(Promises, PiecesGiveWhatTheWholeGives) {
  Tensor x = Tensor::uniform({17, 24}, -1, 1).realize(), w = Tensor::uniform({24, 30}, -1, 1).realize();
  w.requires_grad_();
  auto inner = [&] { return x.matmul(w).contiguous(); };
  auto rest = [](const Tensor& h) { return (h.relu() + 1).sum({1}); };
  auto kernels = [](auto&& work) {
    engine::reset_counters();
    std::vector<double> values = work().tolist();
    return std::make_pair(engine::counters().kernels, values);
  };
  auto whole = kernels([&] { return rest(inner()); });
  auto pieces = kernels([&] {
    Tensor h = inner();
    h.realize();
    return rest(h);
  });
  EXPECT_EQ(whole.first, pieces.first);
  EXPECT_EQ(whole.second, pieces.second);
  Tensor h = inner();
  std::vector<double> whole_gradient = rest(h).sum().gradient({w})[0].tolist();
  Tensor g = inner();
  g.realize();
  EXPECT_EQ(rest(g).sum().gradient({w})[0].tolist(), whole_gradient);
  // The same graph again is found: nothing is scheduled, no rule is tried.
  engine::reset_counters();
  EXPECT_EQ(rewrites_of([&] { rest(inner()).tolist(); }), 0u);
  EXPECT_EQ(engine::counters().schedules, 0u);
}

// R7: constants stay constants and views stay views; nothing is allocated for them.
TEST(Promises, ConstantsAndViewsTakeNoMemory) {
  Tensor x = Tensor::uniform({100, 100}, -1, 1).realize();
  const std::size_t before = engine::counters().memory_used;
  Tensor constant = Tensor::full({1000, 1000}, 3.0).realize(), view = x.transpose().flip({0}).realize();
  Tensor wide = x.expand({50, 100, 100}).realize();
  EXPECT_EQ(engine::counters().memory_used, before);
  EXPECT_EQ((constant * 1).sum().item(), 3e6);
  // A value that was realized is seen by every graph that holds it.
  Tensor y = (x + 1).contiguous(), z = y * 2;
  y.realize();
  engine::reset_counters();
  z.realize();
  EXPECT_EQ(engine::counters().kernels, 1u);
}

// R8: a copy moves the base, not what it was expanded to.
TEST(Promises, ACopyMovesTheBaseOfAnExpandedView) {
  Tensor x = Tensor::uniform({64}, -1, 1).realize();
  engine::reset_counters();
  Tensor there = x.expand({1000, 64}).to("CPU:1");
  EXPECT_EQ(there.sum({1})[999].device(), "CPU:1");
  there.sum({1}).realize();
  EXPECT_EQ(engine::counters().bytes_copied, 64u * 4);
}

// R12: 200 inputs through kernels of 8 or 31 buffers give the same sum, in work that grows linearly.
TEST(Promises, ASumOfTwoHundredTensorsIsRight) {
  std::vector<Tensor> parts;
  std::vector<double> want(9, 0.0);
  for (int i = 0; i < 200; ++i) {
    parts.push_back(Tensor::full({9}, static_cast<double>(i % 13)).contiguous().realize());
    for (double& w : want) w += i % 13;
  }
  Tensor all = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) all = all + parts[i];
  EXPECT_EQ(all.tolist(), want);
}

// R13: movement with symbolic sizes, 500 deep, in linear work.
TEST(Promises, DeepChainsOfSymbolicMovementAreLinear) {
  Variable n("n", 2, 40);
  Tensor base = Tensor::arange(0, 40, 1, {dtypes::float32}).contiguous().realize();
  auto chain = [&](int depth) {
    Tensor x = base.shrink({{0, n.bind(7)}});
    for (int i = 0; i < depth; ++i) {
      x = x.pad({{1, 2}});
      x = x.shrink({{1, n.bind(7) + 1}});
      x = x.reshape({1, n.bind(7)}).reshape({n.bind(7)});
    }
    return x * 2;
  };
  double last = 0;
  for (int depth : {125, 250, 500}) {
    engine::drop_caches();
    std::vector<double> got;
    auto count = static_cast<double>(rewrites_of([&] { got = chain(depth).tolist(); }));
    EXPECT_EQ(got, (std::vector<double>{0, 2, 4, 6, 8, 10, 12}));
    if (last > 0) {
      EXPECT_LE(count / depth, last * 1.3 + 0.5) << depth;
    }
    last = count / depth;
  }
}

// R15: a weight that lies transposed in a file is loaded lazily and multiplies right.
TEST(Promises, ATransposedWeightFromDiskMultipliesRight) {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("lathe-promises-" + std::to_string(getpid()));
  std::vector<float> stored(6 * 4);
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<float>(i) * 0.5F - 3;
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(stored.data()), static_cast<std::streamsize>(stored.size() * 4));
  Tensor disk = Tensor(file).bitcast(dtypes::float32).reshape({6, 4});
  Tensor x = Tensor::arange(0, 8, 1, {dtypes::float32}).reshape({2, 4});
  std::vector<double> got = x.matmul(disk.transpose().to("CPU")).tolist();
  std::vector<double> part = disk.getitem({Slice{1, 3}, Slice{2, 4}}).to("CPU").tolist();
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t c = 0; c < 6; ++c) {
      double want = 0;
      for (std::size_t k = 0; k < 4; ++k) want += static_cast<double>(r * 4 + k) * stored[c * 4 + k];
      EXPECT_EQ(got[r * 6 + c], want);
    }
  EXPECT_EQ(part, (std::vector<double>{stored[6], stored[7], stored[10], stored[11]}));
  std::filesystem::remove(file);
}

// Blocks of 4-bit weights with a scale each, times 8-bit activations with one: whole numbers inside a block,
// floats outside, and nothing between them in memory.
TEST(Promises, AProductOfQuantisedBlocksIsOneKernel) {
  constexpr std::int64_t kRows = 6, kBlocks = 5, kHalf = 16;
  std::vector<std::uint8_t> packed(kRows * kBlocks * kHalf);
  std::vector<std::int8_t> x(kBlocks * kHalf * 2);
  for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::uint8_t>(i * 37 + i / 7);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int8_t>(i * 59 + 11);
  Tensor w = Tensor::from_bytes(std::as_bytes(std::span(packed)).data(), packed.size(),
                                {kRows, kBlocks, kHalf}, dtypes::uint8);
  Tensor a =
      Tensor::from_bytes(std::as_bytes(std::span(x)).data(), x.size(), {1, kBlocks, 2, kHalf}, dtypes::int8);
  Tensor scale = (Tensor::arange(kRows * kBlocks) * 0.125f + 0.5f).reshape({kRows, kBlocks}).realize();
  auto product = [&](DataType whole) {
    Tensor low = (w & 15).cast(whole) - 8, high = (w >> 4).cast(whole) - 8, wide = a.cast(whole);
    Tensor terms = low * wide.getitem({Slice{}, Slice{}, 0}) + high * wide.getitem({Slice{}, Slice{}, 1});
    return (terms.sum(2).cast(dtypes::float32) * scale).sum(1);
  };
  for (DataType whole : {dtypes::int16, dtypes::int32}) {
    Tensor y = product(whole);
    EXPECT_EQ(y.schedule().size(), 1u);
    const std::vector<double> got = y.tolist();
    for (std::int64_t r = 0; r < kRows; ++r) {
      double want = 0;
      for (std::int64_t b = 0; b < kBlocks; ++b) {
        int sum = 0;
        for (std::int64_t j = 0; j < kHalf; ++j) {
          const int byte = packed[static_cast<std::size_t>((r * kBlocks + b) * kHalf + j)];
          sum += ((byte & 15) - 8) * x[static_cast<std::size_t>((b * 2) * kHalf + j)] +
                 ((byte >> 4) - 8) * x[static_cast<std::size_t>((b * 2 + 1) * kHalf + j)];
        }
        want += sum * (static_cast<double>(r * kBlocks + b) * 0.125 + 0.5);
      }
      EXPECT_NEAR(got[static_cast<std::size_t>(r)], want, 1e-5 * std::abs(want) + 1e-2) << r;
    }
  }
  // Sums that a float may not hold exactly are rounded once, as written.
  Tensor large = Tensor::arange(0, kRows * kBlocks * kHalf, 1, {dtypes::int32})
                     .reshape({kRows, kBlocks, kHalf})
                     .realize();
  EXPECT_EQ(((large.sum(2).cast(dtypes::float32) * scale).sum(1)).schedule().size(), 2u);
}

// R11: of an activation, training keeps what is dear to compute and computes the rest of it again.
TEST(Promises, TheGradientOfAnActivationStoresFewOfItsSteps) {
  using Activation = Tensor (*)(const Tensor&);
  struct Row {
    const char* name;
    Activation activation;
    std::size_t kernels, stores;  // at most
  };
  const Row rows[] = {
      {"gelu", [](const Tensor& x) { return x.gelu(); }, 7, 8},
      {"silu", [](const Tensor& x) { return x.silu(); }, 7, 7},
      {"mish", [](const Tensor& x) { return x.mish(); }, 7, 11},
      {"tanh", [](const Tensor& x) { return x.tanh(); }, 6, 6},
  };
  for (const auto& [name, activation, most_kernels, most_stores] : rows) {
    Tensor x = Tensor::empty({512, 256}), v = Tensor::empty({256, 1024}), w = Tensor::empty({1024, 256}),
           bias = Tensor::empty({1024});
    for (Tensor* t : {&v, &w, &bias}) t->requires_grad_();
    activation(x.matmul(v) + bias).matmul(w).square().mean().backward();
    const Tensor wanted[] = {*v.grad(), *w.grad(), *bias.grad()};
    const std::vector<ScheduledKernel> kernels = Tensor::schedule_all(wanted);
    std::size_t stores = 0;
    for (const ScheduledKernel& k : kernels)
      for (std::size_t at = 0; (at = k.text.find("= Store.void", at)) != std::string::npos; ++at) ++stores;
    EXPECT_LE(kernels.size(), most_kernels) << name;
    EXPECT_LE(stores, most_stores) << name;
  }
}

struct Folded {
  const char* what;
  std::function<Tensor()> build;
  std::uint64_t kernels;
  std::size_t bytes;  // taken for the result
  std::vector<double> first;
};

// R18: what is known when it is built is not computed; folds that would lose NaN, infinity or -0 are absent.
TEST(Promises, ConstantsFold) {
  const double inf = std::numeric_limits<double>::infinity();
  auto c = [](double v) { return Tensor::full({4, 6}, v); };
  const Folded rows[] = {
      {"arithmetic", [&] { return c(2) * 3 + c(1); }, 0, 0, {7}},
      {"functions", [&] { return c(4).sqrt() + c(2).reciprocal(); }, 0, 0, {2.5}},
      {"comparison", [&] { return (c(4) < 5).cast(dtypes::float32); }, 0, 0, {1}},
      {"where", [&] { return (c(1) > 0).where(c(5), c(6)); }, 0, 0, {5}},
      {"movement", [&] { return c(2).transpose().reshape({24}).flip({0}).expand({3, 24}); }, 0, 0, {2}},
      {"pad with the same value", [&] { return c(0).pad({{1, 1}, {0, 0}}); }, 0, 0, {0}},
      {"sum", [&] { return c(2).sum({1}); }, 0, 0, {12}},
      {"max", [&] { return c(2).max({0}); }, 0, 0, {2}},
      {"product", [&] { return c(2).prod({0}); }, 0, 0, {16}},
      {"mean", [&] { return c(2).mean(); }, 0, 0, {2}},
      {"infinity minus itself", [&] { return c(inf) - c(inf); }, 0, 0, {std::nan("")}},
  };
  for (const Folded& row : rows) {
    const std::size_t before = engine::counters().memory_used;
    engine::reset_counters();
    Tensor t = row.build();
    t.realize();
    EXPECT_EQ(engine::counters().kernels, row.kernels) << row.what;
    EXPECT_EQ(engine::counters().memory_used, before + row.bytes) << row.what;
    double got = t.flatten()[0].item();
    if (std::isnan(row.first[0])) {
      EXPECT_TRUE(std::isnan(got)) << row.what;
    } else {
      EXPECT_EQ(got, row.first[0]) << row.what;
    }
  }
  // x * 0 is not 0, x - x is not 0 and x + 0 is not x, for some x.
  Tensor x = Tensor({inf, std::nan(""), -0.0, 1.0}).realize();
  std::vector<double> times = (x * 0).tolist(), minus = (x - x).tolist(), plus = (x + 0.0).tolist();
  EXPECT_TRUE(std::isnan(times[0]) && std::isnan(times[1]) && std::signbit(times[2]) && times[3] == 0);
  EXPECT_TRUE(std::isnan(minus[0]) && std::isnan(minus[1]) && minus[2] == 0 && minus[3] == 0);
  EXPECT_TRUE(plus[0] == inf && std::isnan(plus[1]) && !std::signbit(plus[2]) && plus[3] == 1);
}

// Ctrl-C ends a computation between two kernels, and the next one runs as if nothing had been.
TEST(Promises, AnInterruptEndsARunBetweenKernels) {
  Tensor x = Tensor({1.0, 2.0, 3.0}).realize();
  auto computed = [&] { return ((x + 1).contiguous() * 2).contiguous() + 3; };
  const std::vector<double> want = computed().tolist();  // compiled
  engine::reset_counters();
  request_interrupt();
  std::string message;
  try {
    computed().tolist();
  } catch (const UserError& e) {
    message = e.what();
  }
  EXPECT_NE(message.find("interrupted: before kernel"), std::string::npos) << message;
  EXPECT_NE(message.find("was run"), std::string::npos) << message;
  EXPECT_EQ(engine::counters().kernels, 0u);
  EXPECT_EQ(computed().tolist(), want);
}

// R19: Ctrl-C while something compiles ends the compile with the pass, the rule and the number of nodes.
TEST(PromisesDeathTest, CtrlCInACompileSaysWhereItWas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        dev::stop_compiles_on_interrupt();
        std::raise(SIGINT);
        try {
          (Tensor::ones({64, 8}).contiguous() + Tensor::arange(8)).sum({1}).tolist();
        } catch (const UserError& e) {
          std::fputs(e.what(), stderr);
          std::exit(dev::was_interrupted() ? dev::kInterruptedStatus : 0);
        }
        std::exit(1);
      },
      testing::ExitedWithCode(130), "interrupted: in .* after [0-9]+ nodes, last rule");
}

}  // namespace
}  // namespace lathe
