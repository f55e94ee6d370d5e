// A queue of the CPU device: work runs in the order given, each piece once the events it waits for have
// happened. Work that need not wait runs on the thread that gives it, which costs no switch between
// threads; only work that must wait goes to the queue's own thread. Queues are numbered over all virtual
// devices, so that an event of one can be waited for by another.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device.h"

namespace lathe::backends {

inline constexpr int kCpuDevices = 64;  // virtual devices
inline constexpr int kQueuesPerDevice = 2;

class CpuQueue {
 public:
  // The queue of a number, made when first named.
  static CpuQueue& numbered(int number);

  // Takes the turn for work that can run now on this thread: nothing is before it and all events have
  // happened. Returns its value, or 0 where it must be pushed.
  std::uint64_t begin_now(std::span<const Event> after);
  void end_now(std::uint64_t value, bool timed, std::int64_t start_ns);

  // Work for the queue's thread.
  std::uint64_t push(std::function<void()> run, std::span<const Event> after, bool timed);

  bool happened(std::uint64_t value) const { return done_.load(std::memory_order_acquire) >= value; }
  // Returns when the value has happened; throws DeviceError if work of this queue failed.
  void wait(std::uint64_t value);
  void check_failed();
  // When work ran, in nanoseconds; zeros where it was not timed or is long past.
  struct Times {
    std::uint64_t value = 0;
    std::int64_t start = 0, end = 0;
  };
  Times times(std::uint64_t value);

 private:
  struct Work {
    std::function<void()> run;
    std::vector<Event> after;
    std::uint64_t value = 0;
    bool timed = false;
  };

  void run_pushed();
  void finish(std::uint64_t value, bool timed, std::int64_t start_ns);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> done_{0};
  std::uint64_t given_ = 0;
  std::deque<Work> pushed_;
  std::thread thread_;  // started by the first push, never ended: queues live as long as the process
  std::string failure_;
  std::array<Times, 256> timed_{};
};

std::int64_t now_ns();

// While `most_microseconds` > 0 all work goes to the queues' threads and each piece first sleeps for a random
// time up to that; the sequence depends on the seed. Less than 0: as LATHE_DELAY says.
void delay_cpu_work(std::uint64_t seed, int most_microseconds);

}  // namespace lathe::backends
