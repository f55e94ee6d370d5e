#include "apps/serve/worker.h"

namespace lathe::llm::serve {

Worker::Worker(Engine& engine) : engine_(engine), thread_([this] { work(); }) {}

Worker::~Worker() {
  cancel_all();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  woken_.notify_one();
  thread_.join();
}

void Worker::work() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [&] { return has_work_ || stop_; });
      has_work_ = false;
    }
    while (engine_.step()) {
    }
    const std::lock_guard lock(mutex_);
    if (stop_ && !has_work_) return;
  }
}

void Worker::wake() {
  {
    const std::lock_guard lock(mutex_);
    has_work_ = true;
  }
  woken_.notify_one();
}

Engine::Ticket Worker::submit(Request request, Receiver receive) {
  const Engine::Ticket ticket = engine_.submit(std::move(request), std::move(receive));
  {
    const std::lock_guard lock(mutex_);
    last_ = std::max(last_, ticket);
  }
  wake();
  return ticket;
}

void Worker::cancel(Engine::Ticket ticket) {
  engine_.cancel(ticket);
  wake();
}

void Worker::cancel_all() {
  Engine::Ticket last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
  }
  engine_.cancel_up_to(last);
  wake();
}

bool Worker::idle() const {
  const EngineStats stats = engine_.stats();
  return stats.waiting == 0 && stats.running == 0;
}

Exchange::Exchange(Worker& worker, Asked asked)
    : worker_(worker), asked_(std::move(asked)), answer_(asked_), channel_(std::make_shared<Channel>()) {
  try {
    for (std::size_t i = 0; i < asked_.requests.size(); ++i)
      tickets_.push_back(worker_.submit(asked_.requests[i],
                                        [channel = channel_, i](const Update& u) { channel->push(i, u); }));
  } catch (...) {
    for (const Engine::Ticket ticket : tickets_) worker_.cancel(ticket);
    throw;
  }
}

Exchange::~Exchange() {
  if (answer_.complete()) return;
  for (const Engine::Ticket ticket : tickets_) worker_.cancel(ticket);
}

std::optional<Channel::Item> Exchange::next(std::chrono::milliseconds patience) {
  std::optional<Channel::Item> item = channel_->pop(patience);
  if (item) answer_.add(item->first, item->second);
  return item;
}

}  // namespace lathe::llm::serve
