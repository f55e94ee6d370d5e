// A queue of the CUDA device: a stream whose works are counted. A driver's event is recorded only where
// somebody waits for a work or wants its time, behind all that was given by then. Queues are numbered over
// all virtual devices, so that a work of one can be waited for by another.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cuda/driver.h"
#include "runtime/device.h"

namespace lathe::backends {

inline constexpr int kCudaQueues = 2;  // of one device

class CudaQueue {
 public:
  // The queue of a number; made by the first device that names it, in that context, which is current.
  static CudaQueue& numbered(int number);
  static void make(int number, const CudaDriver& driver, CuContext context);

  CudaQueue(int number, const CudaDriver& driver, CuContext context);

  // Runs `work` on the stream after the events; `timed` work can be asked for its time later.
  Event submit(std::span<const Event> after, bool timed, const std::function<void(CuStream)>& work);
  // Returns when the value has happened; throws DeviceError where work failed.
  void wait(std::uint64_t value);
  // From the start of `from` to the end of `to`; 0 where one was not timed or is long past.
  static double elapsed_ns(Event from, Event to);

 private:
  // An event behind the work of this value, and so behind all before it.
  struct Mark {
    std::uint64_t value = 0;
    CuEvent start = nullptr;  // timed work only
    CuEvent end = nullptr;
  };

  CuEvent behind(std::uint64_t value);
  Mark timed(std::uint64_t value);
  void record(Mark mark);
  void retire();
  CuEvent take_event(bool timed);

  const CudaDriver& driver_;
  int number_;
  CuContext context_;
  CuStream stream_ = nullptr;
  std::mutex mutex_;
  std::uint64_t given_ = 0;     // value of the newest work
  std::uint64_t happened_ = 0;  // all up to this value have happened
  std::deque<Mark> marks_;      // the newest, oldest first
  std::vector<CuEvent> spare_, spare_timed_;
};

}  // namespace lathe::backends
