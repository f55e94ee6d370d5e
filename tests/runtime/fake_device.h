// A device made of threads, for tests of ordering: every queue is a thread that takes its work in order,
// waits for the events it was told to, dawdles for a random while and then calls a C++ function. It knows no
// order of its own, so a missing wait shows as a wrong result or a race. Backends FAKE (memory the host
// reaches), ISLE and REEF (memory it does not, so copies between them go through the host).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "runtime/device.h"

namespace lathe::fake {

inline constexpr int kQueues = 2;  // of each device

// What all devices of a backend share: the numbers that say how far each queue has come.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::uint64_t> done = std::vector<std::uint64_t>(1024, 0);

  void wait(Event event) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done[static_cast<std::size_t>(event.queue)] >= event.value; });
  }
  void finish(Event event) {
    std::lock_guard lock(mutex);
    done[static_cast<std::size_t>(event.queue)] = event.value;
    changed.notify_all();
  }
};

using Body = std::function<void(std::span<void* const> spans)>;

// A kernel is a function over the addresses of its span arguments.
struct FakeKernel : Kernel {
  Body body;
};

// Switches shared by all fake devices.
struct Settings {
  std::atomic<int> most_delay_us{0};
  std::atomic<bool> drop_waits{false};  // to show that the tests notice
  std::atomic<std::int64_t> allocated{0}, freed{0}, launches{0}, pending{0};
};
Settings& settings();

// Until all that was given to any queue has ended, also what nobody waits for because waits were dropped.
void wait_until_idle();

void add_fake_backends();  // once per process

}  // namespace lathe::fake
