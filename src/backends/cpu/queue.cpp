#include "backends/cpu/queue.h"

#include <time.h>

#include <chrono>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"

namespace lathe::backends {
namespace {

std::atomic<std::uint64_t> delay_seed{0};
std::atomic<int> delay_most{-1};  // as LATHE_DELAY says

int most_delay() {
  const int most = delay_most.load(std::memory_order_relaxed);
  return most >= 0 ? most : static_cast<int>(flag_number(Flag::Delay));
}

void delay(int most) {
  std::uint64_t r = hash_mix(delay_seed.fetch_add(1));
  std::this_thread::sleep_for(std::chrono::microseconds(r % static_cast<std::uint64_t>(most + 1)));
}

}  // namespace

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void delay_cpu_work(std::uint64_t seed, int most_microseconds) {
  delay_seed = seed;
  delay_most = most_microseconds;
}

CpuQueue& CpuQueue::numbered(int number) {
  static std::array<std::atomic<CpuQueue*>, kCpuDevices * kQueuesPerDevice> all{};
  check_internal(number >= 0 && number < kCpuDevices * kQueuesPerDevice, "CPU", "no queue has this number");
  std::atomic<CpuQueue*>& place = all[static_cast<std::size_t>(number)];
  CpuQueue* queue = place.load(std::memory_order_acquire);
  if (queue != nullptr) return *queue;
  auto* made = new CpuQueue;
  if (place.compare_exchange_strong(queue, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *queue;
}

std::uint64_t CpuQueue::begin_now(std::span<const Event> after) {
  if (most_delay() > 0) return 0;
  for (const Event& event : after)
    if (!numbered(event.queue).happened(event.value)) return 0;
  std::lock_guard lock(mutex_);
  if (done_.load(std::memory_order_relaxed) != given_) return 0;
  return ++given_;
}

void CpuQueue::finish(std::uint64_t value, bool timed, std::int64_t start_ns) {
  std::int64_t end = timed ? now_ns() : 0;
  std::lock_guard lock(mutex_);
  if (timed) timed_[value % timed_.size()] = {value, start_ns, end};
  done_.store(value, std::memory_order_release);
  changed_.notify_all();
}

void CpuQueue::end_now(std::uint64_t value, bool timed, std::int64_t start_ns) {
  finish(value, timed, start_ns);
}

std::uint64_t CpuQueue::push(std::function<void()> run, std::span<const Event> after, bool timed) {
  std::lock_guard lock(mutex_);
  pushed_.push_back({std::move(run), {after.begin(), after.end()}, ++given_, timed});
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { run_pushed(); });
  }
  changed_.notify_all();
  return given_;
}

void CpuQueue::run_pushed() {
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      // The piece before it may still run on the thread that gave it.
      changed_.wait(lock, [&] { return !pushed_.empty() && done_ + 1 == pushed_.front().value; });
      work = std::move(pushed_.front());
      pushed_.pop_front();
    }
    std::int64_t start = 0;
    try {
      for (const Event& event : work.after) numbered(event.queue).wait(event.value);
      if (const int most = most_delay(); most > 0) delay(most);
      start = work.timed ? now_ns() : 0;
      work.run();
    } catch (const std::exception& e) {
      std::lock_guard lock(mutex_);
      failure_ = e.what();
    }
    work.run = nullptr;  // release what it holds before its end is signalled
    finish(work.value, work.timed, start);
  }
}

void CpuQueue::check_failed() {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw DeviceError("CPU", "work of a queue failed").note(failure_);
}

void CpuQueue::wait(std::uint64_t value) {
  if (!happened(value)) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return happened(value); });
  }
  check_failed();
}

CpuQueue::Times CpuQueue::times(std::uint64_t value) {
  std::lock_guard lock(mutex_);
  const Times& t = timed_[value % timed_.size()];
  return t.value == value ? t : Times{};
}

}  // namespace lathe::backends
