// Computations that threads are running now. Two of them may run at once unless they compute the same value
// or one writes memory that the other reads or writes: then the second waits, and finds what the first has
// done.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <span>
#include <utility>

#include "ir/node.h"

namespace lathe::engine {

// What a computation touches; the lists are the caller's.
struct Footprint {
  std::span<const Node> targets;
  std::span<const std::pair<Node, Node>> versions;  // of memory, that it stores
  std::span<const Node> buffers;                    // read or written

  bool conflicts_with(const Footprint& other) const;
};

class InFlight {
 public:
  // Whether one of the computations conflicts; the lock guards this object.
  bool conflicts(const Footprint& mine) const;
  // Waits until some computation has ended.
  void wait(std::unique_lock<std::mutex>& lock) { ended_.wait(lock); }

  // One that runs while this lives. Begins and ends under the lock, and releases it in between.
  class Run {
   public:
    Run(InFlight& all, const Footprint& mine, std::unique_lock<std::mutex>& lock);
    ~Run() { end(); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    void end();  // locks again

   private:
    InFlight& all_;
    std::unique_lock<std::mutex>& lock_;
    std::list<const Footprint*>::iterator place_;
    bool running_ = true;
  };

 private:
  std::list<const Footprint*> runs_;
  std::condition_variable ended_;
};

}  // namespace lathe::engine
