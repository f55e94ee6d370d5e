// The thread that steps an engine: it sleeps while there is nothing to do.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "apps/serve/channel.h"
#include "apps/serve/protocol.h"

namespace lathe::llm::serve {

class Worker {
 public:
  explicit Worker(Engine& engine);
  ~Worker();  // cancels what is left
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Engine::Ticket submit(Request request, Receiver receive);
  void cancel(Engine::Ticket ticket);
  bool idle() const;  // nothing waits and nothing runs
  void cancel_all();

 private:
  void work();
  void wake();

  Engine& engine_;
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool stop_ = false, has_work_ = false;
  Engine::Ticket last_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

// All choices of what a client asked for. Whatever is not finished when it goes is cancelled.
class Exchange {
 public:
  Exchange(Worker& worker, Asked asked);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::optional<Channel::Item> next(std::chrono::milliseconds patience);
  const Asked& asked() const { return asked_; }
  const Answer& answer() const { return answer_; }

 private:
  Worker& worker_;
  Asked asked_;
  Answer answer_;
  std::shared_ptr<Channel> channel_;  // shared: the engine may still hold a receiver when the client is gone
  std::vector<Engine::Ticket> tickets_;
};

}  // namespace lathe::llm::serve
