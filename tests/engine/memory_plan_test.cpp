#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "base/env.h"
#include "base/error.h"
#include "engine/check_plan.h"
#include "engine/prepared_schedule.h"
#include "graphs.h"

namespace lathe::engine {
namespace {

using test::floats;
using test::shaped;

// out[i] = in[i] + in[i] over `size` elements.
Node elementwise_kernel(std::int64_t size) {
  const Node i = range(index_const(size), 0, RangeKind::Global);
  const Node x = load(param(dtypes::Float32, 1, size), i);
  const Node done = end(store(param(dtypes::Float32, 0, size), i, x + x), std::span(&i, 1));
  return sink(std::span(&done, 1));
}

// out[i] = in[size - 1 - i]
Node reversing_kernel(std::int64_t size) {
  const Node i = range(index_const(size), 0, RangeKind::Global);
  const Node x = load(param(dtypes::Float32, 1, size), index_const(size - 1) + i * index_const(-1));
  const Node done = end(store(param(dtypes::Float32, 0, size), i, x), std::span(&i, 1));
  return sink(std::span(&done, 1));
}

Step make_step(Node ast, Node to, Node from) {
  Step step;
  step.ast = ast;
  step.buffers = {to, from};
  step.device = "CPU";
  step.name = "k";
  return step;
}

// What LATHE_VERIFY says about a plan: nothing if it is sound.
std::string fault_of(const MemoryPlan& plan, const Schedule& schedule) {
  const std::string fault = plan_fault(plan, schedule);
  if (!fault.empty()) return fault + "\n" + to_string(plan);
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.offset % kArenaAlign != 0) return "a buffer that is not aligned\n" + to_string(plan);
  return "";
}

TEST(MemoryPlan, TheCheckerSeesAPlanThatSharesTooMuch) {
  const Scope scope;
  std::vector<Node> b;
  for (int i = 0; i < 4; ++i) b.push_back(new_buffer(dtypes::Float32, 1 << 14, "CPU"));
  Schedule chain;
  for (std::size_t i = 0; i + 1 < b.size(); ++i)
    chain.steps.push_back(make_step(reversing_kernel(1 << 14), b[i + 1], b[i]));
  MemoryPlan plan = plan_memory(chain, std::span(b.data(), 1));
  ASSERT_EQ(fault_of(plan, chain), "");
  plan.buffers[1].offset = plan.buffers[0].offset;
  EXPECT_NE(fault_of(plan, chain), "");
}

// Written over in place, an element that another iteration still reads is gone.
TEST(MemoryPlan, TheCheckerSeesAKernelThatWritesOverWhatItStillReads) {
  const Scope scope;
  std::vector<Node> b;
  for (int i = 0; i < 4; ++i) b.push_back(new_buffer(dtypes::Float32, 1 << 10, "CPU"));
  const Node kept[] = {b[0], b[3]};
  for (const bool reverses : {false, true}) {
    Schedule chain;
    for (std::size_t i = 0; i + 1 < b.size(); ++i)
      chain.steps.push_back(
          make_step(reverses ? reversing_kernel(1 << 10) : elementwise_kernel(1 << 10), b[i + 1], b[i]));
    MemoryPlan plan = plan_memory(chain, kept);
    ASSERT_EQ(fault_of(plan, chain), "");
    ASSERT_EQ(plan.buffers.size(), 2u);
    plan.buffers[1].in_place_of = 0;
    plan.buffers[1].offset = plan.buffers[0].offset;
    EXPECT_EQ(fault_of(plan, chain).find("writes over an input that it still reads") != std::string::npos,
              reverses);
  }
}

TEST(MemoryPlan, BuffersThatNeverMeetShareBytes) {
  const Scope scope;
  std::vector<Node> b;
  for (int i = 0; i < 5; ++i) b.push_back(new_buffer(dtypes::Float32, 1 << 14, "CPU"));
  Schedule chain;
  for (std::size_t i = 0; i + 1 < b.size(); ++i)
    chain.steps.push_back(make_step(reversing_kernel(1 << 14), b[i + 1], b[i]));
  const Node kept[] = {b[0], b[4]};
  const MemoryPlan plan = plan_memory(chain, kept);
  EXPECT_EQ(fault_of(plan, chain), "");
  EXPECT_EQ(plan.arena_bytes("CPU"), std::size_t{2} << 16);
  EXPECT_EQ(plan.unshared_bytes(), std::size_t{3} << 16);
  EXPECT_EQ(to_string(plan),
            "arena on CPU: 128.0 KiB\n"
            "    64.0 KiB at            0  steps 0..1\n"
            "    64.0 KiB at        65536  steps 1..2\n"
            "    64.0 KiB at            0  steps 2..3\n");
}

TEST(MemoryPlan, WithoutSharingEveryBufferHasBytesOfItsOwn) {
  const Scope scope;
  std::vector<Node> b;
  for (int i = 0; i < 5; ++i) b.push_back(new_buffer(dtypes::Float32, 1 << 14, "CPU"));
  Schedule chain;
  for (std::size_t i = 0; i + 1 < b.size(); ++i)
    chain.steps.push_back(make_step(elementwise_kernel(1 << 14), b[i + 1], b[i]));
  const Node kept[] = {b[0], b[4]};
  const MemoryPlan plan = plan_memory(chain, kept, {}, Sharing::No);
  EXPECT_EQ(fault_of(plan, chain), "");
  EXPECT_EQ(plan.arena_bytes("CPU"), plan.unshared_bytes());
  for (const PlannedBuffer& buffer : plan.buffers) EXPECT_EQ(buffer.in_place_of, -1);
}

TEST(MemoryPlan, AnElementwiseKernelWritesOverAnInputThatDies) {
  const Scope scope;
  std::vector<Node> b;
  for (int i = 0; i < 5; ++i) b.push_back(new_buffer(dtypes::Float32, 1 << 14, "CPU"));
  Schedule chain;
  for (std::size_t i = 0; i + 1 < b.size(); ++i)
    chain.steps.push_back(make_step(elementwise_kernel(1 << 14), b[i + 1], b[i]));
  const Node kept[] = {b[0], b[4]};
  const MemoryPlan plan = plan_memory(chain, kept);
  EXPECT_EQ(fault_of(plan, chain), "");
  EXPECT_EQ(plan.arena_bytes("CPU"), std::size_t{1} << 16);
}

TEST(MemoryPlan, OnlyAKernelThatReadsWhereItWritesRunsInPlace) {
  const Scope scope;
  EXPECT_TRUE(can_run_in_place(elementwise_kernel(64), 0, 1));
  EXPECT_FALSE(can_run_in_place(reversing_kernel(64), 0, 1));
  // out[i] = sum over r of in[i]: read again after it would be overwritten.
  const Node i = range(index_const(8), 0, RangeKind::Global), r = range(index_const(4), 1, RangeKind::Reduce);
  const Node x = load(param(dtypes::Float32, 1, 8), i);
  const Node total =
      intern(Op::Reduce, dtypes::Float32, {x, r}, Attr::of(static_cast<std::int64_t>(Op::Add)));
  const Node done = end(store(param(dtypes::Float32, 0, 8), i, total), std::span(&i, 1));
  EXPECT_FALSE(can_run_in_place(sink(std::span(&done, 1)), 0, 1));
}

TEST(MemoryPlan, OneOfSeveralStoresWritesOverAnInputThatAllOfThemRead) {
  const Scope scope;
  const Node i = range(index_const(8), 0, RangeKind::Global), j = range(index_const(8), 1, RangeKind::Global);
  const Node x = load(param(dtypes::Float32, 1, 8), i);
  const Node first = end(store(param(dtypes::Float32, 0, 8), i, x + x), std::span(&i, 1));
  const Node same[] = {first, end(store(param(dtypes::Float32, 2, 8), i, x * x), std::span(&i, 1))};
  EXPECT_TRUE(can_run_in_place(sink(same), 0, 1));
  EXPECT_TRUE(can_run_in_place(sink(same), 2, 1));
  const Node y = load(param(dtypes::Float32, 1, 8), j);
  const Node apart[] = {first, end(store(param(dtypes::Float32, 2, 8), j, y * y), std::span(&j, 1))};
  EXPECT_FALSE(can_run_in_place(sink(apart), 0, 1));
}

TEST(MemoryPlan, RandomSchedulesNeverShareBytesThatAreNeeded) {
  const unsigned seed = 4711;
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const Scope scope;
    auto up_to = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::vector<Node> buffers;
    Schedule schedule;
    const std::int64_t sizes[] = {16, 64, 1000, 1024};
    std::vector<Node> kept;
    for (std::size_t i = 0; i < 4; ++i) {
      buffers.push_back(new_buffer(dtypes::Float32, sizes[i], "CPU"));
      kept.push_back(buffers.back());
    }
    const std::size_t steps = 3 + up_to(30);
    for (std::size_t s = 0; s < steps; ++s) {
      const std::size_t from = up_to(2) == 0 ? buffers.size() - 1 - up_to(2) : up_to(buffers.size());
      const std::int64_t size = buffer_size(buffers[from]);
      const Node to = new_buffer(dtypes::Float32, size, "CPU");
      schedule.steps.push_back(
          make_step(up_to(2) == 0 ? elementwise_kernel(size) : reversing_kernel(size), to, buffers[from]));
      buffers.push_back(to);
      if (up_to(6) == 0) kept.push_back(to);
    }
    const MemoryPlan plan = plan_memory(schedule, kept);
    ASSERT_EQ(fault_of(plan, schedule), "") << "seed " << seed << ", round " << round;
    for (const PlannedBuffer& planned : plan.buffers)
      ASSERT_EQ(std::find(kept.begin(), kept.end(), planned.buffer.node()), kept.end())
          << "a kept buffer in the arena";
    ASSERT_LE(plan.arena_bytes("CPU"), plan.unshared_bytes());
  }
}

// A chain of matrix products: every product is an intermediate.
Node long_chain(Node x, Node w, int links, std::int64_t n) {
  for (int i = 0; i < links; ++i) x = test::matmul(x, w, n, n, n);
  return x;
}

TEST(MemoryPlan, ThePlannedPeakIsTheMeasuredOne) {
  const Scope scope;
  const std::int64_t n = 64;
  const NodeRef x = floats(std::vector<float>(static_cast<std::size_t>(n * n), 0.01f));
  const NodeRef w = floats(std::vector<float>(static_cast<std::size_t>(n * n), 0.02f));
  std::size_t planned = 0;
  set_observer([&](const Call& call) { planned = call.prepared->bytes_needed("CPU"); });
  synchronize();
  reset_counters();
  const std::size_t before = counters().memory_used;
  const NodeRef result = test::realize(long_chain(shaped(x, {n, n}), shaped(w, {n, n}), 6, n));
  set_observer({});
  const auto measured = static_cast<double>(counters().memory_peak - before);
  EXPECT_GT(planned, 0u);
  EXPECT_NEAR(measured / static_cast<double>(planned), 1.0, 0.01);
}

TEST(MemoryPlan, TheLargestScratchOfADeviceIsPartOfThePlan) {
  const Scope scope;
  std::vector<Node> b;
  for (int i = 0; i < 4; ++i) b.push_back(new_buffer(dtypes::Float32, 64, "CPU"));
  Schedule chain;
  for (std::size_t i = 0; i + 1 < b.size(); ++i)
    chain.steps.push_back(make_step(reversing_kernel(64), b[i + 1], b[i]));
  const std::size_t scratch[] = {1000, 3000, 3000};
  const MemoryPlan plan = plan_memory(chain, std::span(b.data(), 1), scratch);
  EXPECT_EQ(plan.scratch_bytes("CPU"), 3000u);
  EXPECT_EQ(plan.scratch_bytes("CPU:1"), 0u);
  EXPECT_NE(to_string(plan).find("scratch on CPU: 2.9 KiB, as step 1 needs"), std::string::npos)
      << to_string(plan);
}

// A product whose panels lie in memory of the threads that run it at once: planned with its options, and
// refused before anything is taken.
TEST(MemoryPlan, PanelsOfAProductArePlannedAndRefused) {
  const Scope scope;
  const std::int64_t n = 1024;
  const NodeRef x = new_buffer(dtypes::Float32, n * n, "CPU:6"),
                w = new_buffer(dtypes::Float32, n * n, "CPU:6");
  const Node product = test::matmul(shaped(x, {n, n}), shaped(w, {n, n}), n, n, n);
  const std::size_t matrix = static_cast<std::size_t>(n * n) * 4;
  const FlagScope limit(Flag::MemoryLimit, std::to_string(3 * matrix + (1 << 20)));
  reset_counters();
  try {
    test::realize(product);
    FAIL() << "more memory than the limit";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("of scratch memory"), std::string::npos) << text;
    EXPECT_NE(text.find("scratch on CPU:6: "), std::string::npos) << text;
  }
  EXPECT_EQ(counters().kernels, 0u) << "nothing was submitted";
}

TEST(MemoryPlan, TooLittleMemoryIsATypedErrorThatPrintsThePlan) {
  const Scope scope;
  const std::int64_t n = 64;
  const NodeRef x = floats(std::vector<float>(static_cast<std::size_t>(n * n), 0.01f), "CPU:5");
  const NodeRef w = floats(std::vector<float>(static_cast<std::size_t>(n * n), 0.02f), "CPU:5");
  const Node chain = long_chain(shaped(x, {n, n}), shaped(w, {n, n}), 3, n);
  reset_counters();
  const FlagScope limit(Flag::MemoryLimit, "50K");
  try {
    test::realize(chain);
    FAIL() << "more memory than the limit";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(),
                 "lathe: memory: CPU:5 has no room for 48.0 KiB: 32.0 KiB of 50.0 KiB are in use\n"
                 "  note: LATHE_MEMORY_LIMIT is 50K\n"
                 "  note: planned: 16.0 KiB for results, 32.0 KiB for intermediates (they would take 32.0 "
                 "KiB without sharing)\n"
                 "  note: arena on CPU:5: 32.0 KiB\n"
                 "    16.0 KiB at            0  steps 0..1\n"
                 "    16.0 KiB at        16384  steps 1..2\n"
                 "  help: compute in smaller pieces, or raise LATHE_MEMORY_LIMIT");
  }
  EXPECT_EQ(counters().kernels, 0u) << "nothing was submitted";
}

}  // namespace
}  // namespace lathe::engine
