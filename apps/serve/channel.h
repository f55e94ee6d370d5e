// Updates on their way from the engine's thread to the one that answers a client.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "lathe/llm/engine.h"

namespace lathe::llm::serve {

class Channel {
 public:
  using Item = std::pair<std::size_t, Update>;  // of which choice

  void push(std::size_t choice, Update update) {
    const std::lock_guard lock(mutex_);
    items_.emplace_back(choice, std::move(update));
    there_.notify_one();
  }
  // Nothing where none came in time.
  std::optional<Item> pop(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    if (!there_.wait_for(lock, patience, [&] { return !items_.empty(); })) return std::nullopt;
    Item item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::deque<Item> items_;
};

}  // namespace lathe::llm::serve
