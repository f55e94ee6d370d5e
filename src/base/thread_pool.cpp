#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>

#include "base/cpus.h"
#include "base/env.h"

namespace lathe {

namespace {

// How long to watch before sleeping: longer than the gap between two kernels of a step, and than what one
// core is behind another at the end of a few milliseconds; far shorter than a person or another process
// notices.
constexpr auto kWatch = std::chrono::microseconds(200);

void pause_a_little() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Watches until `ready` or the time is up; returns the last answer.
template <class Ready>
bool watch(Ready ready) {
  const auto until = std::chrono::steady_clock::now() + kWatch;
  do {
    for (int i = 0; i < 32; i++) {
      if (ready()) return true;
      pause_a_little();
    }
  } while (std::chrono::steady_clock::now() < until);
  return ready();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; i++) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_++;
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

ThreadPool& ThreadPool::shared() {
  // Never destroyed: other static objects may still run kernels while the process ends.
  static ThreadPool* pool = [] {
    const auto asked = static_cast<int>(flag_number(Flag::Threads));
    return new ThreadPool(asked > 0 ? asked : usable_cpus());
  }();
  return *pool;
}

void ThreadPool::take_parts(Job& job) {
  while (!job.failed.load(std::memory_order_relaxed)) {
    const std::int64_t part = job.next.fetch_add(1, std::memory_order_relaxed);
    if (part >= job.parts) return;
    try {
      job.call(job.context, part);
    } catch (...) {
      if (!job.failed.exchange(true)) job.error = std::current_exception();
    }
  }
}

void ThreadPool::run(Job& job) {
  int sleeping = 0;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
    sleeping = sleeping_workers_;
  }
  posted_.fetch_add(1, std::memory_order_release);
  if (sleeping > 0) {
    const std::int64_t wanted = std::min<std::int64_t>(job.parts - 1, sleeping);
    if (wanted == sleeping) {
      work_.notify_all();
    } else {
      for (std::int64_t i = 0; i < wanted; i++) work_.notify_one();
    }
  }
  take_parts(job);
  {
    const std::lock_guard lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
  }
  wait_for_helpers(job);
  if (job.error) std::rethrow_exception(job.error);
}

// The asker counts itself as sleeping before it looks at `helpers`, a worker leaves `helpers` before it looks
// for sleeping askers, and all four accesses are sequentially consistent: one of the two always sees the
// other.
void ThreadPool::wait_for_helpers(Job& job) {
  const auto none = [&] { return job.helpers.load() == 0; };
  if (watch(none)) return;
  sleeping_askers_++;
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, none);
  }
  sleeping_askers_--;
}

// A job that still has parts and room, joined; call under mutex_.
ThreadPool::Job* ThreadPool::pick() {
  for (Job* job : jobs_) {
    if (job->helpers_left > 0 && !job->failed && job->next < job->parts) {
      job->helpers_left--;
      job->helpers++;
      return job;
    }
  }
  return nullptr;
}

void ThreadPool::work() {
  while (true) {
    Job* job = nullptr;
    const std::uint64_t seen = posted_.load(std::memory_order_acquire);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      job = pick();
    }
    if (!job && watch([&] { return posted_.load(std::memory_order_acquire) != seen; })) continue;
    if (!job) {
      std::unique_lock lock(mutex_);
      sleeping_workers_++;
      work_.wait(lock, [&] { return stopping_ || (job = pick()) != nullptr; });
      sleeping_workers_--;
      if (stopping_ && !job) return;
    }
    take_parts(*job);
    // After this the job may be gone. A helper leaves only when no part is left to take, so its place stays
    // taken.
    if (job->helpers.fetch_sub(1) == 1 && sleeping_askers_.load() > 0) {
      {
        const std::lock_guard lock(mutex_);
      }  // an asker between its check and its sleep gets there first
      done_.notify_all();
    }
  }
}

}  // namespace lathe
