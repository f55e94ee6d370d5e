#include "runtime/executor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "base/env.h"
#include "base/error.h"
#include "fake_device.h"
#include "runtime/devices.h"

namespace lathe {
namespace {

constexpr std::size_t kCells = 32;  // 8-byte words of each device's memory
using Cells = std::array<std::uint64_t, kCells>;

// A schedule that any number of devices can run: works over the cells of four memories.
struct RandomWork {
  bool copy = false;
  int to_device = 0, from_device = 0;
  std::size_t to = 0, from = 0, from2 = 0, count = 1;  // in cells; a kernel reads two runs and writes one
  Queue queue = 0;
};

constexpr int kDevices = 4;

std::vector<RandomWork> random_schedule(std::mt19937& random) {
  auto up_to = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<RandomWork> works(8 + up_to(24));
  for (RandomWork& work : works) {
    work.copy = up_to(3) == 0;
    work.count = 1 + up_to(6);
    work.to_device = static_cast<int>(up_to(kDevices));
    work.from_device = work.copy ? static_cast<int>(up_to(kDevices)) : work.to_device;
    work.queue = static_cast<Queue>(up_to(fake::kQueues));
    const std::size_t limit = kCells - work.count;
    // Separate parts of the memory, so that neither copies nor kernels read what they write.
    work.to = up_to(limit / 2 - work.count);
    work.from = limit / 2 + up_to(limit / 2);
    work.from2 = limit / 2 + up_to(limit / 2);
    if (up_to(2) == 0) std::swap(work.to, work.from), work.from2 = work.from;
  }
  return works;
}

void mix(std::uint64_t* to, const std::uint64_t* a, const std::uint64_t* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = (to[i] ^ a[i]) * 0x9E3779B97F4A7C15ull + (b[i] >> 7) + 1;
}

std::array<Cells, kDevices> first_cells() {
  std::array<Cells, kDevices> cells;
  for (std::size_t d = 0; d < kDevices; ++d)
    for (std::size_t i = 0; i < kCells; ++i) cells[d][i] = d * 1000 + i;
  return cells;
}

// One after the other, on one memory: what every run must equal.
std::array<Cells, kDevices> run_in_order(std::span<const RandomWork> works) {
  auto cells = first_cells();
  for (const RandomWork& w : works) {
    Cells& to = cells[static_cast<std::size_t>(w.to_device)];
    Cells& from = cells[static_cast<std::size_t>(w.from_device)];
    if (w.copy)
      std::memcpy(&to[w.to], &from[w.from], w.count * 8);
    else
      mix(&to[w.to], &from[w.from], &from[w.from2], w.count);
  }
  return cells;
}

struct FourDevices {
  std::array<OpenDevice*, kDevices> devices;
  std::array<Memory, kDevices> memories;
  std::array<fake::FakeKernel, 8> kernels;  // by count

  explicit FourDevices(const std::array<const char*, kDevices>& names) {
    fake::add_fake_backends();
    for (std::size_t d = 0; d < kDevices; ++d) {
      devices[d] = &open_device(names[d]);
      memories[d] = devices[d]->pool.take(kCells * 8);
    }
    for (std::size_t count = 0; count < kernels.size(); ++count)
      kernels[count].body = [count](std::span<void* const> s) {
        mix(static_cast<std::uint64_t*>(s[0]), static_cast<const std::uint64_t*>(s[1]),
            static_cast<const std::uint64_t*>(s[2]), count);
      };
  }
  ~FourDevices() {
    fake::wait_until_idle();
    for (std::size_t d = 0; d < kDevices; ++d) devices[d]->pool.give(memories[d]);
  }

  Place place(int device, std::size_t cell, std::size_t count) {
    const auto d = static_cast<std::size_t>(device);
    return {devices[d], {memories[d], cell * 8, count * 8}};
  }
  static Place host(Cells& cells) { return {nullptr, {{0, kCells * 8, cells.data()}, 0, kCells * 8}}; }

  std::array<Cells, kDevices> run(std::span<const RandomWork> works) {
    auto cells = first_cells();
    for (int d = 0; d < kDevices; ++d)
      executor().copy(place(d, 0, kCells), host(cells[static_cast<std::size_t>(d)]));
    for (const RandomWork& w : works) {
      const Place to = place(w.to_device, w.to, w.count), from = place(w.from_device, w.from, w.count);
      if (w.copy) {
        executor().copy(to, from, w.queue);
        continue;
      }
      const Place from2 = place(w.from_device, w.from2, w.count);
      const Arg args[] = {
          {Arg::Kind::Span, to.span, 0}, {Arg::Kind::Span, from.span, 0}, {Arg::Kind::Span, from2.span, 0}};
      const Place reads[] = {to, from, from2};
      executor().launch({to.device, w.queue, &kernels[w.count], {}, args, reads, {&to, 1}, "mix"});
    }
    std::array<Cells, kDevices> result;
    for (int d = 0; d < kDevices; ++d) {
      auto& out = result[static_cast<std::size_t>(d)];
      executor().wait(executor().copy(host(out), place(d, 0, kCells)));
    }
    return result;
  }
};

unsigned fuzz_seed() {
  const char* given = std::getenv("FUZZ_SEED");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 20260u;
}

// Returns how many of the schedules gave a wrong result.
int count_wrong(const std::array<const char*, kDevices>& names, int schedules, unsigned seed) {
  FourDevices four(names);
  std::mt19937 random(seed);
  int wrong = 0;
  for (int i = 0; i < schedules; ++i) {
    const std::vector<RandomWork> works = random_schedule(random);
    const bool logged = i % 50 == 0;
    executor().set_log(logged);
    const bool equal = four.run(works) == run_in_order(works);
    executor().set_log(false);
    const std::vector<WorkRecord> log = executor().take_log();
    if (logged) {
      const std::vector<Race> races = find_races(log);
      EXPECT_TRUE(races.empty()) << "seed " << seed << ", schedule " << i << ": " << to_string(races[0], log);
    }
    wrong += equal ? 0 : 1;
  }
  return wrong;
}

TEST(Executor, TenThousandRandomSchedulesOverFourDevicesEqualTheOneDeviceResult) {
  fake::settings().most_delay_us = 40;
  EXPECT_EQ(count_wrong({"FAKE:0", "FAKE:1", "FAKE:2", "FAKE:3"}, 10000, fuzz_seed()), 0)
      << "seed " << fuzz_seed();
  fake::settings().most_delay_us = 0;
}

TEST(Executor, RandomSchedulesOverDevicesOfThreeBackendsEqualTheOneDeviceResult) {
  fake::settings().most_delay_us = 40;
  EXPECT_EQ(count_wrong({"FAKE:0", "ISLE:0", "ISLE:1", "REEF:0"}, 500, fuzz_seed()), 0)
      << "seed " << fuzz_seed();
  fake::settings().most_delay_us = 0;
}

TEST(Executor, WithoutItsWaitsTheSameSchedulesGoWrong) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "races on purpose, which the thread sanitizer reports";
#endif
  fake::settings().most_delay_us = 100;
  fake::settings().drop_waits = true;
  EXPECT_GT(count_wrong({"FAKE:0", "FAKE:1", "FAKE:2", "FAKE:3"}, 200, fuzz_seed()), 0);
  executor().synchronize();
  fake::settings().drop_waits = false;
  fake::settings().most_delay_us = 0;
}

// LATHE_SERIAL: whoever looks for a missing wait runs the program once more without needing any.
TEST(Executor, OneThingAtATimeNeedsNoWaits) {
  fake::settings().most_delay_us = 100;
  fake::settings().drop_waits = true;
  {
    const FlagScope serial(Flag::Serial, "1");
    EXPECT_EQ(count_wrong({"FAKE:0", "FAKE:1", "FAKE:2", "FAKE:3"}, 200, fuzz_seed()), 0)
        << "seed " << fuzz_seed();
  }
  executor().synchronize();
  fake::settings().drop_waits = false;
  fake::settings().most_delay_us = 0;
}

TEST(Executor, CountsLaunchesAndCopiesBetweenDevices) {
  FourDevices four({"FAKE:0", "FAKE:1", "ISLE:0", "REEF:0"});
  executor().reset_counters();
  std::vector<RandomWork> works(3);
  works[0].to = 20;
  works[1] = {true, 1, 0, 0, 8, 8, 4, 0};
  works[2] = {true, 3, 2, 0, 8, 8, 2, 0};  // through the host: still one copy
  four.run(works);
  EXPECT_EQ(executor().counters().kernels, 1u);
  EXPECT_EQ(executor().counters().copies, 2u);
  EXPECT_EQ(executor().counters().bytes_copied, 6u * 8);
}

// A copy that has to wait for work of another backend waits for it on the host, and other threads go on.
TEST(Executor, AWaitForAnotherBackendHoldsNobodyElseUp) {
  FourDevices four({"FAKE:0", "FAKE:1", "ISLE:0", "REEF:0"});
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  fake::FakeKernel slow;
  slow.body = [&](std::span<void* const>) { released.wait(); };
  const Place on_isle = four.place(2, 0, 4), on_reef = four.place(3, 0, 4);
  const Arg args[] = {{Arg::Kind::Span, on_isle.span, 0}};
  executor().launch({on_isle.device, kMainQueue, &slow, {}, args, {}, {&on_isle, 1}, "slow"});
  std::future<void> copied =
      std::async(std::launch::async, [&] { executor().wait(executor().copy(on_reef, on_isle)); });
  std::future<void> other = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // let the other thread come first
    executor().wait(executor().copy(four.place(1, 0, 4), four.place(0, 0, 4)));
  });
  EXPECT_EQ(other.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(copied.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  release.set_value();
  copied.get();
  other.get();
}

TEST(Executor, AForkedChildGetsAnErrorInsteadOfAHang) {
  FourDevices four({"FAKE:0", "FAKE:1", "FAKE:2", "FAKE:3"});
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text = "no error";
    try {
      open_device("FAKE");
    } catch (const DeviceError& error) {
      text = error.what();
    }
    const bool written = write(channel[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(written ? 0 : 1);
  }
  close(channel[1]);
  char text[512] = {};
  EXPECT_GT(read(channel[0], text, sizeof text - 1), 0);
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_STREQ(text,
               "lathe: device: this process was forked from one that had opened a device, and devices do not "
               "survive that\n"
               "  help: start workers as new processes (spawn, exec), or open devices only after forking");
}

}  // namespace
}  // namespace lathe
