// Order of work: within a queue by turn, between queues by events only, whatever the delays.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "backends/cpu/loader.h"
#include "backends/cpu/queue.h"
#include "base/env.h"
#include "base/error.h"
#include "cpu/harness.h"
#include "runtime/devices.h"
#include "runtime/executor.h"

namespace lathe::test {
namespace {

Memory host_memory(void* data, std::size_t bytes) { return {0, bytes, data}; }

// All work goes through the queues' threads while this lives.
struct Delays {
  explicit Delays(std::uint64_t seed, int most = 200) { backends::delay_cpu_work(seed, most); }
  ~Delays() { backends::delay_cpu_work(0, -1); }
};

// x[i] = x[i] * 3 + c on a buffer of 4 numbers: any change of order changes the result.
Binary step_kernel() {
  Scope scope;
  ProgramBuilder b("step");
  Node x = b.buffer(dtypes::UInt32, 4), c = b.variable("c", 0, 1000);
  Node i = b.loop(int_const(dtypes::Int64, 4));
  Node value = load(x, i) * int_const(dtypes::UInt32, 3) + cast(c, dtypes::UInt32);
  b.add(store(x, i, value));
  b.close();
  return compilers().front()->compile(b.take());
}

TEST(CpuQueue, ADelayByTheFlagGivesWorkToTheQueuesThread) {
  backends::delay_cpu_work(0, -1);
  backends::CpuQueue& queue =
      backends::CpuQueue::numbered(backends::kCpuDevices * backends::kQueuesPerDevice - 1);
  {
    const FlagScope delay(Flag::Delay, "200");
    EXPECT_EQ(queue.begin_now({}), 0u);
  }
  const std::uint64_t turn = queue.begin_now({});
  EXPECT_GT(turn, 0u);
  queue.end_now(turn, false, 0);
}

// Random steps and copies between the cells of several devices, each told to wait exactly for what it needs.
TEST(CpuQueue, RandomWorkOnFourDevicesWithDelaysEqualsTheSameWorkInTurn) {
  constexpr int kDevices = 4, kCells = 6, kWorks = 400;
  Binary binary = step_kernel();
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<std::unique_ptr<Device>> devices;
    for (int d = 0; d < kDevices; ++d) devices.push_back(backends::open_cpu_device(d));
    std::unique_ptr<Kernel> kernel = devices[0]->load(binary);
    std::vector<std::array<std::uint32_t, 4>> cells(kCells), model(kCells);
    for (int c = 0; c < kCells; ++c) cells[c] = model[c] = {1u + c, 2, 3, 4};
    std::vector<Event> written(kCells);
    std::vector<std::vector<Event>> read(kCells);
    Delays delays(seed);
    for (int w = 0; w < kWorks; ++w) {
      Device& device = *devices[random() % kDevices];
      int queue = static_cast<int>(random() % 2), to = static_cast<int>(random() % kCells);
      std::vector<Event> after = read[to];
      after.push_back(written[to]);
      Span target{host_memory(cells[to].data(), 16), 0, 16};
      if (random() % 2 == 0) {
        int from = static_cast<int>(random() % kCells);
        if (from == to) continue;
        after.push_back(written[from]);
        Event e = device.copy(queue, target, {host_memory(cells[from].data(), 16), 0, 16}, after);
        read[from].push_back(e);
        written[to] = e;
        model[to] = model[from];
      } else {
        std::int64_t c = static_cast<std::int64_t>(random() % 1000);
        Arg args[] = {{Arg::Kind::Span, target, 0}, {Arg::Kind::Int, {}, c}};
        written[to] = device.launch(queue, *kernel, {}, args, after);
        for (std::uint32_t& x : model[to]) x = x * 3 + static_cast<std::uint32_t>(c);
      }
      read[to].clear();
    }
    for (int c = 0; c < kCells; ++c) {
      devices[0]->wait(written[c]);
      for (Event e : read[c]) devices[0]->wait(e);
    }
    EXPECT_EQ(cells, model);
  }
}

TEST(CpuQueue, WorkThatNeedNotWaitIsLeftToTheThreadThatGaveIt) {
  auto device = backends::open_cpu_device(5);
  std::array<int, 4> from{1, 2, 3, 4}, to{};
  const Event copied =
      device->copy(0, {host_memory(to.data(), 16), 0, 16}, {host_memory(from.data(), 16), 0, 16}, {});
  std::thread([&] { device->run_left(copied); }).join();
  EXPECT_EQ(to[0], 0) << "another thread took it";
  device->run_left(copied);
  EXPECT_EQ(to, from);
  // What follows does not overtake it, and waiting runs it.
  std::array<int, 4> last{};
  device->copy(0, {host_memory(to.data(), 4), 0, 4}, {host_memory(&from[3], 4), 0, 4}, {});
  device->wait(
      device->copy(0, {host_memory(last.data(), 16), 0, 16}, {host_memory(to.data(), 16), 0, 16}, {}));
  EXPECT_EQ(last, (std::array<int, 4>{4, 2, 3, 4}));
}

// The first kernel ends only once the second has run.
TEST(CpuQueue, AKernelRunsWhileOtherThreadsGiveWork) {
  static std::promise<void> started, released;
  const auto kernel_of = [](backends::KernelFunction function) {
    backends::CpuKernel kernel;
    kernel.function = function;
    return kernel;
  };
  backends::CpuKernel first = kernel_of([](void**, const std::int64_t*, std::int64_t, char*) {
    started.set_value();
    EXPECT_EQ(released.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  });
  backends::CpuKernel second =
      kernel_of([](void**, const std::int64_t*, std::int64_t, char*) { released.set_value(); });
  backend("CPU");
  const auto launch = [](backends::CpuKernel& kernel, const char* device) {
    LaunchWork work;
    work.device = &open_device(device);
    work.kernel = &kernel;
    executor().wait(executor().launch(work));
  };
  std::thread other([&] { launch(first, "CPU:20"); });
  started.get_future().wait();
  EXPECT_GE(executor().counters().kernels, 0u);
  launch(second, "CPU:21");
  other.join();
}

TEST(CpuQueue, WorkWaitsForTheEventsItNames) {
  auto device = backends::open_cpu_device(6);
  std::array<int, 1> a{1}, b{2}, c{3};
  Event slow;
  {
    Delays delays(1, 20000);
    slow = device->copy(0, {host_memory(b.data(), 4), 0, 4}, {host_memory(a.data(), 4), 0, 4}, {});
  }
  Event after[] = {slow};
  Event last = device->copy(1, {host_memory(c.data(), 4), 0, 4}, {host_memory(b.data(), 4), 0, 4}, after);
  device->wait(last);
  EXPECT_EQ(c[0], 1);
}

TEST(CpuQueue, TimesAreMeasuredWhenAskedFor) {
  auto device = backends::open_cpu_device(7);
  std::vector<char> from(1 << 20), to(1 << 20);
  Span target{host_memory(to.data(), to.size()), 0, to.size()},
      source{host_memory(from.data(), from.size()), 0, from.size()};
  Event quiet = device->copy(0, target, source, {});
  device->wait(quiet);
  EXPECT_EQ(device->elapsed_ns(quiet, quiet), 0);
  device->set_timing(true);
  Event first = device->copy(0, target, source, {}), second = device->copy(0, target, source, {});
  device->wait(second);
  EXPECT_GT(device->elapsed_ns(first, first), 0);
  EXPECT_GE(device->elapsed_ns(first, second), device->elapsed_ns(second, second));
}

TEST(CpuQueue, SeveralThreadsMayGiveWorkToDifferentDevices) {
  std::vector<std::thread> threads;
  std::array<std::array<int, 256>, 4> cells{};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &cells] {
      auto device = backends::open_cpu_device(8 + t);
      for (int i = 1; i < 256; ++i) {
        cells[t][0] = t + 1;
        Span to{host_memory(&cells[t][i], 4), 0, 4}, from{host_memory(&cells[t][i - 1], 4), 0, 4};
        device->wait(device->copy(i % 2, to, from, {}));
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(cells[t][255], t + 1);
}

TEST(CpuDevice, MemoryIsAlignedAndImportedMemoryIsGivenBack) {
  auto device = backends::open_cpu_device(0);
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{9} << 20}) {
    Memory memory = device->alloc(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.host) % 64, 0u);
    std::memset(memory.host, 1, bytes);
    device->free(memory);
  }
  int data = 5;
  bool released = false;
  Memory imported = device->import(&data, 4, [&] { released = true; });
  EXPECT_EQ(imported.host, &data);
  EXPECT_FALSE(released);
  device->free(imported);
  EXPECT_TRUE(released);
}

TEST(CpuDevice, MoreMemoryThanTheMachineHasIsOutOfMemory) {
  auto device = backends::open_cpu_device(0);
  EXPECT_THROW(device->alloc(std::size_t{1} << 60), OutOfMemory);
}

TEST(CpuDevice, ThereAreSixtyFourVirtualDevices) {
  EXPECT_NO_THROW(backends::open_cpu_device(63));
  EXPECT_THROW(backends::open_cpu_device(64), DeviceError);
}

}  // namespace
}  // namespace lathe::test
