#include "base/interruptible.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/interrupt.h"

namespace lathe {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(20);

struct Call {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;

  void finish() {
    const std::lock_guard guard(mutex);
    done = true;
    ended.notify_all();
  }
  bool is_done() {
    const std::lock_guard guard(mutex);
    return done;
  }
};

// Abandoned calls. What they use must outlive them, so a process waits for them before it ends.
class Abandoned {
 public:
  ~Abandoned() {
    const bool forked = getpid() != process_;  // their threads are not in this process
    for (auto& [call, thread] : calls_) forked ? thread.detach() : thread.join();
  }
  void add(std::shared_ptr<Call> call, std::thread thread) {  // shared: the thread holds it, too
    const std::lock_guard guard(mutex_);
    std::erase_if(calls_, [](auto& known) {
      if (!known.first->is_done()) return false;
      known.second.join();
      return true;
    });
    calls_.emplace_back(std::move(call), std::move(thread));
  }

 private:
  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::list<std::pair<std::shared_ptr<Call>, std::thread>> calls_;
};
// Made after whatever the first call uses was loaded, so that it is destroyed before that is.
Abandoned& abandoned() {
  static Abandoned calls;
  return calls;
}

}  // namespace

void run_interruptible(std::function<void()> work, std::string_view done, std::string_view kernel) {
  abandoned();
  auto call = std::make_shared<Call>();
  std::thread thread([call, work = std::move(work)] {
    work();
    call->finish();
  });
  std::unique_lock lock(call->mutex);
  do {
    lock.unlock();
    try {
      stop_before(done, kernel);
    } catch (...) {
      abandoned().add(call, std::move(thread));
      throw;
    }
    lock.lock();
  } while (!call->ended.wait_for(lock, kLookEvery, [&] { return call->done; }));
  lock.unlock();
  thread.join();
}

}  // namespace lathe
