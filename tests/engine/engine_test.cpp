#include "engine/engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "graphs.h"
#include "runtime/storage.h"

namespace lathe {
namespace {

using test::floats;
using test::read;
using test::realize;
using test::shaped;

TEST(Engine, AddsTwoBuffers) {
  const Scope scope;
  const NodeRef a = floats({1, 2, 3, 4, 5}), b = floats({10, 20, 30, 40, 50});
  EXPECT_EQ(read(realize(a.node() + b.node())), (std::vector<float>{11, 22, 33, 44, 55}));
}

TEST(Engine, SumsAlongAnAxis) {
  const Scope scope;
  const NodeRef a = floats({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read(realize(test::sum(shaped(a, {2, 3}), {1}))), (std::vector<float>{6, 15}));
  EXPECT_EQ(read(realize(test::sum(shaped(a, {2, 3}), {0}))), (std::vector<float>{5, 7, 9}));
}

TEST(Engine, MultipliesMatrices) {
  const Scope scope;
  const std::int64_t m = 5, k = 7, n = 6;
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 5) - 2;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  const std::vector<float> got =
      read(realize(test::matmul(shaped(floats(a), {m, k}), shaped(floats(b), {k, n}), m, k, n)));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      float want = 0;
      for (std::int64_t l = 0; l < k; ++l)
        want += a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
      EXPECT_EQ(got[static_cast<std::size_t>(i * n + j)], want) << i << ", " << j;
    }
}

TEST(Engine, AGraphOfTheSameFormIsScheduledOnce) {
  const Scope scope;
  engine::reset_counters();
  for (int i = 0; i < 5; ++i) {
    const auto x = static_cast<float>(i);
    const NodeRef a = floats({x, x + 1, x + 2}), b = floats({1, 1, 1});
    EXPECT_EQ(read(realize((a.node() + b.node()) * a.node()))[2], (x + 3) * (x + 2));
  }
  EXPECT_EQ(engine::counters().schedules, 1u);
  EXPECT_EQ(engine::counters().kernels, 5u);
}

TEST(Engine, TheSameBufferTwiceIsAnotherGraphThanTwoBuffers) {
  const Scope scope;
  const NodeRef a = floats({1, 2}), b = floats({5, 7});
  EXPECT_EQ(read(realize(a.node() * b.node())), (std::vector<float>{5, 14}));
  EXPECT_EQ(read(realize(b.node() * b.node())), (std::vector<float>{25, 49}));
}

TEST(Engine, AValueThatWasComputedIsNotComputedAgain) {
  const Scope scope;
  const NodeRef a = floats({1, 2, 3});
  const NodeRef twice = a.node() + a.node();
  realize(twice);
  EXPECT_TRUE(realized(twice));
  engine::reset_counters();
  EXPECT_EQ(read(realize(twice)), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(engine::counters().kernels, 0u);
  EXPECT_EQ(read(realize(twice.node() * a.node())), (std::vector<float>{2, 8, 18}));
  EXPECT_EQ(engine::counters().kernels, 1u);
}

TEST(Engine, AStoreChangesTheBufferInPlaceAndHappensOnce) {
  const Scope scope;
  const NodeRef a = floats({1, 2, 3});
  const NodeRef next = test::assign(a, a.node() + a.node());
  const NodeRef result = realize(next);
  EXPECT_EQ(result.node(), a.node());
  EXPECT_EQ(read(result), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(read(realize(next)), (std::vector<float>{2, 4, 6}));
}

TEST(Engine, MemoryGoesBackWhenNothingHoldsIt) {
  realize(floats({1}).node());
  const std::size_t before = engine::counters().memory_used;
  {
    const Scope scope;
    const NodeRef a = floats(std::vector<float>(10000, 1.0f));
    const NodeRef b = realize(a.node() + a.node());
    EXPECT_GE(engine::counters().memory_used, before + 80000);
  }
  EXPECT_EQ(engine::counters().memory_used, before);
}

TEST(Engine, LiveMemoryNamesTheOpsOrThePlaceThatMadeIt) {
  const Scope scope;
  const NodeRef a = floats(std::vector<float>(5000, 1.0f));
  const NodeRef named_by_ops = realize(a.node() * number(dtypes::Float32, 0.25));
  const MadeAt here("leak.cpp:7");
  const NodeRef named_by_place = realize(a.node() * number(dtypes::Float32, 0.75));
  std::string made_by_ops, made_at;
  for (const LiveBuffer& live : live_buffers()) {
    if (live.id == buffer_id(named_by_ops)) made_by_ops = live.made;
    if (live.id == buffer_id(named_by_place)) made_at = live.made;
  }
  EXPECT_EQ(made_by_ops, "Mul");
  EXPECT_EQ(made_at, "leak.cpp:7");
}

TEST(Engine, CopiesBetweenVirtualDevicesAreCounted) {
  const Scope scope;
  const NodeRef a = floats({1, 2, 3, 4});
  engine::reset_counters();
  const NodeRef there = realize(copy_to(a, "CPU:1"));
  EXPECT_EQ(buffer_device(there), "CPU:1");
  const NodeRef sum = realize(there.node() + there.node());
  EXPECT_EQ(buffer_device(sum), "CPU:1");
  EXPECT_EQ(read(sum), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(engine::counters().copies, 1u);
  EXPECT_EQ(engine::counters().bytes_copied, 16u);
}

TEST(Engine, AFileThatWasWrittenAnewIsReadAnew) {
  char pattern[] = "/tmp/lathe-disk-test-XXXXXX";
  const std::string path = std::string(mkdtemp(pattern)) + "/data";
  for (const float first : {1.0f, 5.0f}) {
    const Scope scope;
    const float data[] = {first, 2, 3};
    write_file_atomic(path, {reinterpret_cast<const char*>(data), sizeof data}, Sync::No);
    const NodeRef file = new_buffer(dtypes::Float32, 3, "DISK:" + path);
    EXPECT_EQ(read(realize(copy_to(file, "CPU"))), (std::vector<float>{first, 2, 3}));
  }
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

TEST(Engine, ImportedMemoryIsReadInPlaceAndReleased) {
  static bool released;
  released = false;
  std::vector<float> data{1, 2, 3};
  {
    const Scope scope;
    const NodeRef a =
        engine::buffer_import(dtypes::Float32, 3, data.data(), [](void*) { released = true; }, nullptr);
    data[0] = 7;
    EXPECT_EQ(read(realize(a.node() + a.node())), (std::vector<float>{14, 4, 6}));
    EXPECT_FALSE(released);
  }
  EXPECT_TRUE(released);
}

TEST(Engine, KernelsCompileOnceForAllValuesOfAVariable) {
  const Scope scope;
  const Node n = variable("n", 1, 100);
  std::vector<float> data(100);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  const NodeRef a = floats(data);
  engine::reset_counters();
  for (std::int64_t length = 1; length <= 100; ++length) {
    const Node args[] = {n, index_const(length)};
    const Node begin = index_const(0), end = intern(Op::Bind, dtypes::Index, args);
    const Node part = shrink(a, std::span(&begin, 1), std::span(&end, 1));
    EXPECT_EQ(read(realize(test::sum(part, {0})))[0], static_cast<float>(length * (length - 1) / 2));
  }
  EXPECT_EQ(engine::counters().schedules, 1u);
  EXPECT_LE(engine::counters().compiles, 2u);
}

TEST(Engine, OneVariableWithTwoValuesIsRefused) {
  const Scope scope;
  const Node n = variable("n", 1, 4);
  const NodeRef a = floats({1, 2, 3, 4});
  auto part = [&](std::int64_t length) {
    const Node args[] = {n, index_const(length)};
    const Node begin = index_const(0), end = intern(Op::Bind, dtypes::Index, args);
    return test::sum(shrink(a, std::span(&begin, 1), std::span(&end, 1)), {0});
  };
  try {
    realize(part(2) + part(3));
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "lathe: realize: variable n is bound to 2 and to 3 in one computation\n"
                 "  help: realize one before building the other");
  }
}

TEST(Engine, AttachedOptionsReachTheKernelThatStoresTheValue) {
  const Scope scope;
  const NodeRef a = floats(std::vector<float>(64, 1.5f));
  const Node value = contiguous(a.node() * a.node(), "[UPCAST(0, 4)]");
  engine::set_profiling(true);
  const NodeRef result = realize(value);
  const auto profile = engine::profile();
  engine::set_profiling(false);
  ASSERT_EQ(profile.size(), 1u);
  EXPECT_EQ(profile[0].options, "UPCAST(0, 4)");
  EXPECT_EQ(read(result), std::vector<float>(64, 2.25f));
}

TEST(Engine, AFlagChoosesTheCompilerOfADeviceThatIsOpenAlready) {
  const Scope scope;
  const NodeRef a = floats(std::vector<float>(21, 1.5f));
  const auto source = [&](Node value) {
    const FlagScope debug(Flag::Debug, "4");
    testing::internal::CaptureStderr();
    EXPECT_EQ(read(realize(value))[20], 4.5f);
    return testing::internal::GetCapturedStderr();
  };
  const std::string llvm = source(a.node() + number(dtypes::Float32, 3));
  if (llvm.find("define ") == std::string::npos) GTEST_SKIP() << "this build has one compiler only";
  const FlagScope other(Flag::Cpu, "c");
  const std::string c = source(a.node() * number(dtypes::Float32, 3));
  EXPECT_EQ(c.find("define "), std::string::npos) << c;
  EXPECT_NE(c.find("void "), std::string::npos) << c;
}

TEST(Engine, OptionsThatDoNotFitAreATypedError) {
  const Scope scope;
  const NodeRef a = floats(std::vector<float>(64, 1.5f));
  const Node value = contiguous(a.node() * a.node() * a.node(), "[UPCAST(7, 4)]");
  EXPECT_THROW(realize(value), KernelOptError);
}

TEST(Engine, VerifyAcceptsARightKernel) {
  const Scope scope;
  const FlagScope verify(Flag::Verify, "1");
  const NodeRef a = floats({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read(realize(test::sum(shaped(a, {2, 3}), {1}))), (std::vector<float>{6, 15}));
}

TEST(Engine, TheObserverSeesEveryComputation) {
  const Scope scope;
  const NodeRef a = floats({1, 2, 3});
  int calls = 0;
  engine::set_observer([&](const engine::Call& call) {
    ++calls;
    EXPECT_EQ(call.slots.size(), 1u);
    EXPECT_EQ(call.results.size(), 1u);
  });
  realize(a.node() * number(dtypes::Float32, 3));
  engine::set_observer({});
  realize(a.node() * number(dtypes::Float32, 4));
  EXPECT_EQ(calls, 1);
}

TEST(Engine, ThreadsMayRealizeAtTheSameTime) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const Scope scope;
        const auto x = static_cast<float>(t * 100 + i);
        const NodeRef a = floats({x, 2 * x});
        if (read(realize(a.node() + a.node())) != std::vector<float>{2 * x, 4 * x}) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lathe
