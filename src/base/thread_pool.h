// A pool of threads for work that is divided into parts. Starting a kernel must cost microseconds, so idle
// workers spin a little before they sleep, and the calling thread runs parts as well. Any number of threads
// may call it at once, also from within a part: no thread ever waits for a part that has not been started.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace lathe {

class ThreadPool {
 public:
  // `threads` counts the asking thread: a pool of 1 has no workers.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The process's own pool, made on first use with LATHE_THREADS threads, or one for each usable CPU.
  static ThreadPool& shared();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls function(part) once for each part in [0, parts), on at most `limit` threads at a time, and returns
  // when all are done. The first exception a part throws is rethrown here; parts not started by then are
  // dropped.
  template <class Function>
  void parallel_for(std::int64_t parts, Function&& function, int limit = std::numeric_limits<int>::max()) {
    using Plain = std::remove_reference_t<Function>;
    if (parts <= 1 || limit <= 1 || workers_.empty()) {
      for (std::int64_t part = 0; part < parts; part++) function(part);
      return;
    }
    Job job;
    job.call = [](void* context, std::int64_t part) { (*static_cast<Plain*>(context))(part); };
    job.context = const_cast<std::remove_const_t<Plain>*>(std::addressof(function));
    job.parts = parts;
    job.helpers_left = limit - 1;
    run(job);
  }

 private:
  // Lives on the asking thread's stack. Workers find it in jobs_ and count themselves in `helpers` while they
  // use it; once it is out of the list the count only falls, and at zero the stack may go.
  struct Job {
    void (*call)(void* context, std::int64_t part) = nullptr;
    void* context = nullptr;
    std::int64_t parts = 0;
    std::atomic<std::int64_t> next{0};
    std::atomic<int> helpers{0};
    int helpers_left = 0;  // under mutex_
    std::exception_ptr error;
    std::atomic<bool> failed{false};
  };

  void run(Job& job);
  void work();
  static void take_parts(Job& job);
  Job* pick();
  void wait_for_helpers(Job& job);

  std::mutex mutex_;  // guards jobs_, stopping_ and helpers_left
  std::vector<Job*> jobs_;
  bool stopping_ = false;
  std::condition_variable work_, done_;
  std::atomic<std::uint64_t> posted_{0};  // counts jobs, so that an idle worker can watch without the lock
  std::atomic<int> sleeping_askers_{0};
  int sleeping_workers_ = 0;  // under mutex_
  std::vector<std::thread> workers_;
};

}  // namespace lathe
