// LATHE_DEBUG lines, profile, LATHE_SAVE, LATHE_VERIFY: what a user sees of the engine at work.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "backends/cpu/queue.h"
#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "engine/debug.h"
#include "engine/roof.h"
#include "graphs.h"
#include "named_backend.h"
#include "runtime/registry.h"

namespace lathe::engine {
namespace {

using test::floats;
using test::read;

// A device whose kernels are all wrong: each fills its first buffer with 42.
class FaultyDevice : public Device {
 public:
  Memory alloc(std::size_t bytes) override { return {0, bytes, new char[bytes]()}; }
  Memory import(void* data, std::size_t bytes, Owner) override { return {0, bytes, data}; }
  void free(Memory memory) override { delete[] static_cast<char*>(memory.host); }
  std::unique_ptr<Kernel> load(const Binary&) override { return std::make_unique<Kernel>(); }
  Event copy(Queue, Span to, Span from, std::span<const Event>) override {
    std::memcpy(at(to), at(from), to.bytes);
    return {0, ++count_};
  }
  Event launch(Queue, Kernel&, const Grid&, std::span<const Arg> args, std::span<const Event>) override {
    const float wrong = 42;
    for (std::size_t i = 0; i + 4 <= args[0].span.bytes; i += 4) std::memcpy(at(args[0].span) + i, &wrong, 4);
    return {0, ++count_};
  }
  void wait(Event) override {}
  double elapsed_ns(Event, Event) override { return 0; }

 private:
  static char* at(const Span& span) { return static_cast<char*>(span.memory.host) + span.offset; }
  std::uint64_t count_ = 0;
};

void add_faulty_backend() {
  test::add_named_backend("FAULTY", [] { return std::make_unique<FaultyDevice>(); });
}

TEST(Verify, AWrongKernelIsAnErrorThatNamesItTheElementAndBothValues) {
  const Scope scope;
  add_faulty_backend();
  const NodeRef a = floats({1, 2, 3}, "FAULTY");
  const FlagScope unchecked(Flag::Check, "off");
  EXPECT_EQ(read(test::realize(a.node() + a.node())), (std::vector<float>{42, 42, 42})) << "nobody looked";
  const FlagScope verify(Flag::Verify, "1");
  try {
    test::realize(a.node() * a.node());
    FAIL() << "the wrong result went through";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("differs from REF in buffer 0: element 0 is 42, not 1"), std::string::npos) << text;
    EXPECT_NE(text.find("it came from Mul"), std::string::npos) << text;
  }
}

TEST(Debug, TheKernelLineHasItsColumns) {
  const KernelRun run{"r_64_32", "CPU", "UPCAST(0, 4)", "Mul Add", 2000, 4e6, 8e4, 0.5};
  EXPECT_EQ(kernel_line(run, false),
            "r_64_32                      CPU        2.0 us   2000.0 GFLOP/s     40.0 GB/s  50% of alu  "
            "UPCAST(0, 4)                          Mul Add");
  KernelRun placed = run;
  placed.place = "train.py:3";
  EXPECT_TRUE(kernel_line(placed, false).ends_with("  train.py:3  Mul Add")) << kernel_line(placed, false);
  const KernelRun plain{"a_very_long_kernel_name_that_does_not_fit", "CPU:1", "", "Add", 0, 0, 0, 0};
  EXPECT_EQ(kernel_line(plain, false).substr(0, 36), "a_very_long_kernel_name_tha~ CPU:1  ");
}

TEST(Debug, LevelTwoPrintsALineForEachKernelAndLevelFourTheSource) {
  const Scope scope;
  const NodeRef a = floats(std::vector<float>(33, 2));
  const auto printed = [&](const char* level, Node value) {
    const FlagScope debug(Flag::Debug, level);
    testing::internal::CaptureStderr();
    test::realize(value);
    return testing::internal::GetCapturedStderr();
  };
  const std::string two = printed("2", a.node() * a.node() * number(dtypes::Float32, 7));
  EXPECT_NE(two.find("GFLOP/s"), std::string::npos) << two;
  EXPECT_NE(two.find("Mul"), std::string::npos) << two;
  EXPECT_EQ(two.find("Param"), std::string::npos) << two;
  const std::string six = printed("6", a.node() * a.node() * number(dtypes::Float32, 8));
  EXPECT_NE(six.find("Param.f32"), std::string::npos) << six;
  EXPECT_NE(six.find("heuristic"), std::string::npos) << six;
}

TEST(Debug, SaveWritesEachKernelWithGraphOptionsAndSource) {
  const Scope scope;
  char pattern[] = "/tmp/lathe-save-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const FlagScope save(Flag::Save, folder);
  const NodeRef a = floats(std::vector<float>(37, 2));
  test::realize(a.node() * a.node() * number(dtypes::Float32, 9));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string text = *read_file(entry.path().string());
    EXPECT_NE(text.find("# options (heuristic):"), std::string::npos);
    EXPECT_NE(text.find("Sink.void"), std::string::npos);
    ++files;
  }
  EXPECT_EQ(files, 1);
  std::filesystem::remove_all(folder);
}

TEST(Profile, SumsTheRunsOfEachKernel) {
  const Scope scope;
  set_profiling(true);
  for (int i = 0; i < 3; ++i) {
    const NodeRef a = floats(std::vector<float>(41, 2));
    test::realize(a.node() * a.node() * number(dtypes::Float32, 11));
  }
  const std::vector<KernelProfile> kernels = profile();
  set_profiling(false);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].runs, 3u);
  EXPECT_EQ(kernels[0].flops, 3 * 2 * 41);
  EXPECT_GT(kernels[0].ns, 0);
  EXPECT_EQ(kernels[0].device, "CPU");
}

TEST(Roof, TheShareIsTheShortestPossibleTimeOverTheRealOne) {
  const OpenDevice& cpu = open_device("CPU");
  const Roof& roof = roof_of(cpu);
  ASSERT_GT(roof.flops, 0);
  ASSERT_GE(roof.bytes.size(), 2u);
  EXPECT_DOUBLE_EQ(share_of_roof(cpu, roof.flops, 0, 2e9), 0.5);
  EXPECT_DOUBLE_EQ(share_of_roof(cpu, 0, roof.bytes.back().rate, 4e9), 0.25);
  EXPECT_EQ(share_of_roof(cpu, 1, 1, 0), 0);
}

TEST(Roof, WorkThatFitsACacheIsMeasuredByTheCache) {
  Roof roof;
  roof.bytes = {{100, 8.0}, {1000, 4.0}, {10000, 1.0}};
  EXPECT_EQ(roof.bytes_rate(5), 8.0);
  EXPECT_EQ(roof.bytes_rate(999), 8.0);
  EXPECT_EQ(roof.bytes_rate(1000), 4.0);
  EXPECT_EQ(roof.bytes_rate(1e9), 1.0);
  EXPECT_EQ(Roof().bytes_rate(1e9), 0);
}

// R35 on the real CPU device: work spread over four virtual devices, with random delays, against plain C++.
TEST(VirtualDevices, AChainOverFourDevicesWithRandomDelaysGivesTheSameNumbers) {
  backends::delay_cpu_work(99, 200);
  for (int round = 0; round < 50; ++round) {
    const Scope scope;
    std::vector<float> want(100);
    for (std::size_t i = 0; i < want.size(); ++i)
      want[i] = static_cast<float>(i + static_cast<std::size_t>(round));
    NodeRef parts[4];
    for (int d = 0; d < 4; ++d) parts[d] = floats(want, "CPU:" + std::to_string(d));
    // Each device adds its neighbour's part to its own, twice around.
    std::array<std::vector<float>, 4> plain{want, want, want, want};
    Node nodes[4] = {parts[0], parts[1], parts[2], parts[3]};
    for (int turn = 0; turn < 8; ++turn) {
      const int to = turn % 4, from = (turn + 1) % 4;
      nodes[to] = nodes[to] + copy_to(nodes[from], "CPU:" + std::to_string(to));
      for (std::size_t i = 0; i < want.size(); ++i)
        plain[static_cast<std::size_t>(to)][i] += plain[static_cast<std::size_t>(from)][i];
    }
    const std::vector<NodeRef> results = realize(nodes);
    for (std::size_t d = 0; d < 4; ++d)
      ASSERT_EQ(read(results[d]), plain[d]) << "round " << round << ", device " << d;
  }
  backends::delay_cpu_work(0, 0);
}

TEST(Memory, AThousandStepsStayFlat) {
  std::size_t after_ten = 0;
  std::uint64_t nodes_after_ten = 0;
  NodeRef weights = floats(std::vector<float>(4096, 1));
  for (int step = 0; step < 1000; ++step) {
    const Scope scope;
    const NodeRef batch = floats(std::vector<float>(4096, 0.001f));
    const Node moved = weights.node() + batch.node() * number(dtypes::Float32, 0.5);
    realize(std::vector<Node>{test::assign(weights, moved)});
    if (step == 10) after_ten = counters().memory_used, nodes_after_ten = interner_stats().live;
    if (step < 10) continue;
    ASSERT_EQ(counters().memory_used, after_ten) << "step " << step;
    ASSERT_LE(interner_stats().live, nodes_after_ten + 100) << "step " << step;
  }
  EXPECT_NEAR(read(weights)[0], 1.5, 1e-3);
}

}  // namespace
}  // namespace lathe::engine
