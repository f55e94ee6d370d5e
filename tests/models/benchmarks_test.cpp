#include "models/benchmarks.h"

#include <gtest/gtest.h>

#include "lathe/dev/compile_bench.h"

namespace lathe::models {
namespace {

TEST(Benchmarks, EveryNetBuildsItsGraphWithoutComputing) {
  for (const BenchmarkNet& net : benchmark_nets()) {
    SCOPED_TRACE(net.name);
    const std::vector<Tensor> targets = net.build();
    ASSERT_FALSE(targets.empty());
    EXPECT_FALSE(targets[0].is_realized());
  }
}

TEST(Benchmarks, EveryKernelTakesTheOptionsThatTheHeuristicChooses) {
  for (const char* device : {"NULL:x86-64-v3", "NULL:x86-64-v4"})
    for (const BenchmarkNet& net : benchmark_nets()) {
      SCOPED_TRACE(std::string(net.name) + " on " + device);
      const dev::CompileReport report =
          dev::bench_compile(std::string(net.name), net.build, {.device = device, .machine_code = false});
      EXPECT_GT(report.kernels, 0u);
    }
}

// R4: recorded, and may only fall. (llama_1b_decode had one less as long as the maximum of its logits was a
// row inside the kernel that compares them, which made that kernel the work of one thread.)
TEST(Benchmarks, WholeNetsHaveAtMostAsManyKernelsAsRecorded) {
  struct Recorded {
    const char* net;
    std::uint64_t kernels, unique;
  };
  constexpr Recorded kRecorded[] = {
      {"resnet50_forward", 58, 34},  {"resnet50_train", 517, 189}, {"gpt2_124m_train", 580, 75},
      {"bert_base_train", 719, 108}, {"llama_1b_decode", 294, 29},
  };
  ASSERT_EQ(std::size(kRecorded), benchmark_nets().size());
  for (std::size_t i = 0; i < std::size(kRecorded); ++i) {
    const BenchmarkNet& net = benchmark_nets()[i];
    ASSERT_EQ(net.name, kRecorded[i].net);
    const dev::CompileReport report = dev::bench_compile(std::string(net.name), net.build,
                                                         {.device = "NULL:x86-64-v3", .machine_code = false});
    EXPECT_LE(report.kernels, kRecorded[i].kernels) << net.name;
    EXPECT_LE(report.unique_kernels, kRecorded[i].unique) << net.name;
  }
}

TEST(Benchmarks, TargetsHaveTheSizesTheNamesPromise) {
  EXPECT_EQ(to_string(resnet50_forward()[0].shape()), "(64, 1000)");
  EXPECT_EQ(to_string(gpt2_124m_train()[0].shape()), "()");
  EXPECT_EQ(to_string(llama_1b_decode()[0].shape()), "(1,)");
  EXPECT_EQ(llama_1b_decode().size(), 1 + 2 * 16U);
}

// Draws of random numbers that never ran would stand in front of those of the next net.
TEST(Benchmarks, ANetIsTheSameHoweverOftenItWasBuilt) {
  auto build = [] {
    Tensor x = Tensor::ones({8});
    for (int i = 0; i < 3; ++i) x = x * Tensor::rand({8});
    return std::vector<Tensor>{x};
  };
  const dev::CompileOptions options{.device = "CPU", .machine_code = false};
  const dev::CompileReport first = dev::bench_compile("draws", build, options),
                           second = dev::bench_compile("draws", build, options);
  EXPECT_EQ(second.nodes, first.nodes);
  EXPECT_EQ(second.kernels, first.kernels);
}

}  // namespace
}  // namespace lathe::models
