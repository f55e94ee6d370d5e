// Submits work to the queues of devices in program order, and is the only code that decides which work waits
// for which (ordering.h). So a missing wait is a bug in one file, and the log (race_check.h) can show it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lathe/memory.h"
#include "runtime/device.h"
#include "runtime/ordering.h"

namespace lathe {

struct OpenDevice;
struct LaunchFault;

// Bytes of a device; of the caller's own memory where `device` is null.
struct Place {
  OpenDevice* device = nullptr;
  Span span;
};

// A kernel launch: `args` are what the kernel gets, `reads` and `writes` the bytes it may touch.
struct LaunchWork {
  OpenDevice* device = nullptr;
  Queue queue = kMainQueue;
  Kernel* kernel = nullptr;  // stays alive until the work has ended
  Grid grid;
  std::span<const Arg> args;
  std::span<const Place> reads, writes;
  std::string_view name;  // for the log
  std::shared_ptr<LaunchFault> fault =
      nullptr;          // of a kernel that checks indices; its cell is among the args
  bool counted = true;  // among the kernels that the program ran
};

// Launches that one device runs one after the other as one work, with all that they read and write.
struct JoinedWork {
  OpenDevice* device = nullptr;
  Queue queue = kMainQueue;
  std::span<const LaunchCall> calls;
  std::span<const Place> reads, writes;
  std::unique_ptr<LaunchList>* known = nullptr;
  std::string_view name;  // for the log
};

struct ExecutorCounters {
  std::uint64_t kernels = 0, copies = 0,
                bytes_copied = 0;  // copies between devices; not those from and to the host
};

class Executor {
 public:
  int add_queue(OpenDevice& device, Queue queue);

  WorkPoint launch(const LaunchWork& work);
  WorkPoint launch_all(const JoinedWork& work);
  // Launches, waits, and gives the kernel's own time in nanoseconds.
  double launch_timed(const LaunchWork& work);
  // Copies as many bytes as `to` has. Goes through host memory where neither device reaches the other's.
  WorkPoint copy(const Place& to, const Place& from, Queue queue = kMainQueue);

  void wait(WorkPoint point);
  // Waits until the host may read these bytes, or until no work uses them at all.
  void wait_written(OpenDevice& device, const Span& span);
  void wait_unused(OpenDevice& device, const Span& span);
  void synchronize();

  // Throws IndexError where a launch that has ended reported an index that is outside, and nobody was told
  // yet.
  void throw_faults();

  // While on, everything submitted and waited for is written down.
  void set_log(bool on);
  std::vector<WorkRecord> take_log();

  ExecutorCounters counters() const;
  void reset_counters();

 private:
  struct Line {
    OpenDevice* device;
    Queue queue;
    std::uint64_t first = 1;   // number of events.front()
    std::deque<Event> events;  // of works that the host has not seen end
    Event last_ended;
  };
  // Host memory of a copy that goes through it, kept until the second half has ended.
  struct Bounce {
    WorkPoint until;
    std::unique_ptr<std::byte[]> bytes;
  };
  using Submit = Event (*)(void* context, std::span<const Event> after);

  struct Submitted {
    WorkPoint point;
    Event event;
  };

  std::vector<std::shared_ptr<LaunchFault>> take_ended_faults(bool no_news_only);
  Submitted submit(const LaunchWork& work);
  Submitted submit(OpenDevice& device, Queue queue, std::span<const Place> reads,
                   std::span<const Place> writes, std::string_view name, Submit call, void* context);
  WorkPoint copy_with(OpenDevice& device, Queue queue, const Place& to, const Place& from);
  WorkPoint copy_through_host(const Place& to, const Place& from, Queue queue);
  void wait_for(std::unique_lock<std::mutex>& lock, WorkPoint point);
  void wait_for_other_backends(std::unique_lock<std::mutex>& lock, const OpenDevice& device, int queue,
                               std::span<const ByteRange> reads, std::span<const ByteRange> writes);
  void wait_users(OpenDevice& device, const Span& span, bool writing);
  void note_ended(WorkPoint point);

  mutable std::mutex mutex_;
  Ordering ordering_;
  std::deque<Line> lines_;
  bool several_backends_ = false;
  std::vector<Bounce> bounces_;
  std::vector<std::shared_ptr<LaunchFault>> faults_;  // of launches not known to have ended; alive until then
  std::size_t most_faults_ = 64;                      // with more of them it is asked which have ended
  bool logging_ = false;
  std::vector<WorkRecord> log_;
  ExecutorCounters counters_;
};

// The process's executor.
Executor& executor();

// The bytes of a place as addresses two works can be compared by.
ByteRange byte_range(const Place& place);

}  // namespace lathe
