// Gives work to the queues of devices in program order and alone decides what waits for what (ordering.h). A
// device is only told; so a missing wait is a bug of one file, and the log (race_check.h) can show it.
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
class FaultCell;

// Bytes of a device; of the caller's own memory where `device` is null.
struct Place {
  OpenDevice* device = nullptr;
  Span span;
};

// A kernel launch: `args` are what the kernel gets, `reads` and `writes` the bytes it may touch.
struct LaunchWork {
  OpenDevice* device = nullptr;
  Queue queue = 0;
  Kernel* kernel = nullptr;  // stays alive until the work has ended
  Grid grid;
  std::span<const Arg> args;
  std::span<const Place> reads, writes;
  std::string_view name;         // for the log and for faults
  std::string_view origin = {};  // the tensor ops it came from, for faults
  // Of a kernel that checks indices: its cell (also among the args) and what its reports mean. Both stay
  // alive as long as the kernel.
  FaultCell* cell = nullptr;
  std::span<const ProgramCheck> checks = {};
  bool counted = true;  // among the kernels that the program ran
};

struct ExecutorCounters {
  std::uint64_t kernels = 0, copies = 0,
                bytes_copied = 0;  // copies between devices; not those from and to the host
};

class Executor {
 public:
  int add_queue(OpenDevice& device, Queue queue);

  WorkPoint launch(const LaunchWork& work);
  // Launches, waits, and gives the kernel's own time in nanoseconds.
  double launch_timed(const LaunchWork& work);
  // Copies as many bytes as `to` has. Goes through host memory where neither device reaches the other's.
  WorkPoint copy(const Place& to, const Place& from, Queue queue = 0);

  void wait(WorkPoint point);
  // Waits until the host may read these bytes, or until no work uses them at all.
  void wait_written(OpenDevice& device, const Span& span);
  void wait_unused(OpenDevice& device, const Span& span);
  void synchronize();

  // Throws IndexError where a kernel has reported an index that is outside. Asked after a wait, it speaks for
  // all work that has ended, and perhaps for some that has not.
  void throw_faults();
  // The cell is about to die.
  void forget(const FaultCell& cell);

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
  // A kernel that may have reported a fault since it was last asked.
  struct Watched {
    FaultCell* cell;
    WorkPoint until;  // its last launch
    std::span<const ProgramCheck> checks;
    std::string name, origin, device;
    std::vector<PlaceRef> made;  // lines of the tensors that its last launch was for
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

  void watch(const LaunchWork& work, WorkPoint point, std::vector<PlaceRef>& made);
  Submitted submit(const LaunchWork& work);
  Submitted submit(OpenDevice& device, Queue queue, std::span<const Place> reads,
                   std::span<const Place> writes, std::string_view name, Submit call, void* context);
  WorkPoint copy_with(OpenDevice& device, Queue queue, const Place& to, const Place& from);
  WorkPoint copy_through_host(const Place& to, const Place& from, Queue queue);
  void wait_for(std::unique_lock<std::mutex>& lock, WorkPoint point);
  void wait_users(OpenDevice& device, const Span& span, bool writing);
  void note_ended(WorkPoint point);

  mutable std::mutex mutex_;
  Ordering ordering_;
  std::deque<Line> lines_;
  std::vector<Bounce> bounces_;
  std::vector<Watched> watched_;
  bool logging_ = false;
  std::vector<WorkRecord> log_;
  ExecutorCounters counters_;
};

// The process's executor.
Executor& executor();

// The bytes of a place as addresses two works can be compared by.
ByteRange byte_range(const Place& place);

}  // namespace lathe
