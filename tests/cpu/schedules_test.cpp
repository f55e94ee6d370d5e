// R35 on real devices: random schedules of kernels and copies over four virtual CPUs, given to the executor,
// with random delays in every queue, leave what the same works leave one after the other.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>

#include "backends/cpu/queue.h"
#include "cpu/harness.h"
#include "runtime/devices.h"
#include "runtime/executor.h"
#include "runtime/race_check.h"

namespace lathe::test {
namespace {

constexpr int kDevices = 4;
constexpr std::size_t kCells = 32, kMostCount = 6;  // 4-byte words of each device's memory
using Cells = std::array<std::uint32_t, kCells>;
using AllCells = std::array<Cells, kDevices>;

// A kernel reads two runs of cells of its device and writes a third; a copy reads one of any device.
struct RandomWork {
  bool copy = false;
  std::size_t to_device = 0, from_device = 0, to = 0, from = 0, from2 = 0, count = 1;
  Queue queue = 0;
};

std::vector<RandomWork> random_schedule(std::mt19937& random, int queues) {
  auto up_to = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<RandomWork> works(6 + up_to(14));
  for (RandomWork& work : works) {
    work.copy = up_to(3) == 0;
    work.count = 1 + up_to(kMostCount);
    work.to_device = up_to(kDevices);
    work.from_device = work.copy ? up_to(kDevices) : work.to_device;
    work.queue = static_cast<Queue>(up_to(static_cast<std::size_t>(queues)));
    // One half of the memory is written, the other one read, so that no work reads what it writes.
    const std::size_t half = kCells / 2;
    const bool upper = up_to(2) == 0;
    work.to = up_to(half - work.count) + (upper ? half : 0);
    work.from = up_to(half - work.count) + (upper ? 0 : half);
    work.from2 = up_to(half - work.count) + (upper ? 0 : half);
  }
  return works;
}

void mix(std::uint32_t* to, const std::uint32_t* a, const std::uint32_t* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = (to[i] ^ a[i]) * 40503 + b[i] + 1;
}

Binary mix_kernel(std::size_t count) {
  Scope scope;
  ProgramBuilder p("mix");
  const auto n = static_cast<std::int64_t>(count);
  Node to = p.buffer(dtypes::UInt32, n), a = p.buffer(dtypes::UInt32, n), b = p.buffer(dtypes::UInt32, n);
  Node i = p.loop(int_const(dtypes::Int64, n));
  Node value = apply(Op::Xor, load(to, i), load(a, i)) * int_const(dtypes::UInt32, 40503) + load(b, i) +
               int_const(dtypes::UInt32, 1);
  p.add(store(to, i, value));
  p.close();
  return compilers().front()->compile(p.take());
}

AllCells first_cells() {
  AllCells cells;
  for (std::size_t d = 0; d < kDevices; ++d)
    for (std::size_t i = 0; i < kCells; ++i) cells[d][i] = static_cast<std::uint32_t>(d * 1000 + i);
  return cells;
}

AllCells run_in_order(std::span<const RandomWork> works) {
  AllCells cells = first_cells();
  for (const RandomWork& w : works) {
    Cells &to = cells[w.to_device], &from = cells[w.from_device];
    if (w.copy)
      std::memcpy(&to[w.to], &from[w.from], w.count * 4);
    else
      mix(&to[w.to], &from[w.from], &from[w.from2], w.count);
  }
  return cells;
}

class FourCpus {
 public:
  FourCpus() {
    backend("CPU");
    for (std::size_t d = 0; d < kDevices; ++d) {
      devices_[d] = &open_device("CPU:" + std::to_string(d));
      memories_[d] = devices_[d]->pool.take(kCells * 4);
    }
    for (std::size_t count = 1; count <= kMostCount; ++count)
      kernels_[count] = devices_[0]->device->load(mix_kernel(count));
  }
  ~FourCpus() {
    executor().synchronize();
    for (std::size_t d = 0; d < kDevices; ++d) devices_[d]->pool.give(memories_[d]);
  }
  FourCpus(const FourCpus&) = delete;
  FourCpus& operator=(const FourCpus&) = delete;

  int queues() const { return devices_[0]->device->queues(); }

  AllCells run(std::span<const RandomWork> works) {
    AllCells cells = first_cells(), result;
    for (std::size_t d = 0; d < kDevices; ++d) executor().copy(place(d, 0, kCells), host(cells[d]));
    for (const RandomWork& w : works) {
      const Place to = place(w.to_device, w.to, w.count), from = place(w.from_device, w.from, w.count);
      if (w.copy) {
        executor().copy(to, from, w.queue);
        continue;
      }
      const Place from2 = place(w.from_device, w.from2, w.count), reads[] = {to, from, from2};
      const Arg args[] = {
          {Arg::Kind::Span, to.span, 0}, {Arg::Kind::Span, from.span, 0}, {Arg::Kind::Span, from2.span, 0}};
      executor().launch({to.device, w.queue, kernels_[w.count].get(), {}, args, reads, {&to, 1}, "mix"});
    }
    for (std::size_t d = 0; d < kDevices; ++d)
      executor().wait(executor().copy(host(result[d]), place(d, 0, kCells)));
    return result;
  }

 private:
  Place place(std::size_t device, std::size_t cell, std::size_t count) const {
    return {devices_[device], {memories_[device], cell * 4, count * 4}};
  }
  static Place host(Cells& cells) { return {nullptr, {{0, kCells * 4, cells.data()}, 0, kCells * 4}}; }

  std::array<OpenDevice*, kDevices> devices_{};
  std::array<Memory, kDevices> memories_{};
  std::array<std::unique_ptr<Kernel>, kMostCount + 1> kernels_;
};

TEST(CpuSchedules, TenThousandRandomOnesOnFourVirtualCpusEqualTheSameWorksInTurn) {
  const char* given = std::getenv("FUZZ_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 7;
  FourCpus cpus;
  std::mt19937 random(seed);
  backends::delay_cpu_work(seed, 5);
  int wrong = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::vector<RandomWork> works = random_schedule(random, cpus.queues());
    const bool logged = i % 50 == 0;
    executor().set_log(logged);
    wrong += cpus.run(works) == run_in_order(works) ? 0 : 1;
    executor().set_log(false);
    const std::vector<WorkRecord> log = executor().take_log();
    if (!logged) continue;
    const std::vector<Race> races = find_races(log);
    EXPECT_TRUE(races.empty()) << "seed " << seed << ", schedule " << i << ": " << to_string(races[0], log);
  }
  backends::delay_cpu_work(0, 0);
  EXPECT_EQ(wrong, 0) << "FUZZ_SEED=" << seed;
}

}  // namespace
}  // namespace lathe::test
