#include "backends/cuda/cuda_queue.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"

namespace lathe::backends {
namespace {

constexpr std::size_t kMarks = 1024;  // events that are kept

struct AllQueues {
  std::mutex mutex;
  std::map<int, std::unique_ptr<CudaQueue>> by_number;
};
AllQueues& all_queues() {
  static auto* all = new AllQueues;  // never destroyed: the driver may end before static objects do
  return *all;
}

}  // namespace

void CudaQueue::make(int number, const CudaDriver& driver, CuContext context) {
  AllQueues& all = all_queues();
  std::lock_guard lock(all.mutex);
  auto& queue = all.by_number[number];
  if (!queue) queue = std::make_unique<CudaQueue>(number, driver, context);
}

CudaQueue& CudaQueue::numbered(int number) {
  AllQueues& all = all_queues();
  std::lock_guard lock(all.mutex);
  auto found = all.by_number.find(number);
  check_internal(found != all.by_number.end(), "CUDA", "an event of a queue that was never made");
  return *found->second;
}

CudaQueue::CudaQueue(int number, const CudaDriver& driver, CuContext context)
    : driver_(driver), number_(number), context_(context) {
  driver_.check(driver_.stream_create(&stream_, kCuStreamNonBlocking), "making a stream");
}

CuEvent CudaQueue::take_event(bool timed) {
  std::vector<CuEvent>& spare = timed ? spare_timed_ : spare_;
  CuEvent event = nullptr;
  if (!spare.empty()) {
    event = spare.back();
    spare.pop_back();
  } else {
    driver_.check(driver_.event_create(&event, timed ? 0 : kCuEventNoTiming), "making an event");
  }
  return event;
}

// Old works give their events back once they have happened; failures are reported by the next wait.
void CudaQueue::retire() {
  while (marks_.size() > kMarks) {
    const Mark& oldest = marks_.front();
    if (driver_.event_query(oldest.end) == kCuNotReady) return;
    happened_ = std::max(happened_, oldest.value);
    bool timed = oldest.start != nullptr;
    (timed ? spare_timed_ : spare_).push_back(oldest.end);
    if (timed) spare_timed_.push_back(oldest.start);
    marks_.pop_front();
  }
}

// Behind all that was given so far. The lock is held.
void CudaQueue::record(Mark mark) {
  driver_.check(driver_.event_record(mark.end, stream_), "recording an event");
  mark.value = given_;
  marks_.push_back(mark);
  retire();
}

// An event that happens once the work of this value has; null where it is known to have happened.
CuEvent CudaQueue::behind(std::uint64_t value) {
  std::lock_guard lock(mutex_);
  if (value <= happened_) return nullptr;
  if (marks_.empty() || marks_.back().value < value) {
    driver_.check(driver_.context_set(context_), "entering the GPU's context");
    Mark mark;
    mark.end = take_event(false);
    record(mark);
  }
  return std::lower_bound(marks_.begin(), marks_.end(), value,
                          [](const Mark& mark, std::uint64_t v) { return mark.value < v; })
      ->end;
}

CudaQueue::Mark CudaQueue::timed(std::uint64_t value) {
  std::lock_guard lock(mutex_);
  for (const Mark& mark : marks_)
    if (mark.value == value && mark.start != nullptr) return mark;
  return {};
}

Event CudaQueue::submit(std::span<const Event> after, bool timed, const std::function<void(CuStream)>& work) {
  for (const Event& event : after) {
    if (event.queue == number_ || event.value == 0) continue;  // a stream keeps its own order
    CuEvent end = numbered(event.queue).behind(event.value);
    driver_.check(driver_.context_set(context_), "entering the GPU's context");
    if (end != nullptr) driver_.check(driver_.stream_wait(stream_, end, 0), "waiting for another stream");
  }
  std::lock_guard lock(mutex_);
  Mark mark;
  if (timed) {
    mark.start = take_event(true);
    mark.end = take_event(true);
    driver_.check(driver_.event_record(mark.start, stream_), "recording an event");
  }
  work(stream_);
  ++given_;
  if (timed) record(mark);
  return {number_, given_};
}

void CudaQueue::wait(std::uint64_t value) {
  CuEvent end = behind(value);
  if (end != nullptr) driver_.check(driver_.event_synchronize(end), "running a kernel or a copy");
  std::lock_guard lock(mutex_);
  happened_ = std::max(happened_, value);
}

double CudaQueue::elapsed_ns(Event from, Event to) {
  Mark first = numbered(from.queue).timed(from.value), last = numbered(to.queue).timed(to.value);
  if (first.start == nullptr || last.start == nullptr) return 0;
  float milliseconds = 0;
  const CudaDriver& driver = numbered(from.queue).driver_;
  driver.check(driver.event_elapsed(&milliseconds, first.start, last.end), "reading a time");
  return static_cast<double>(milliseconds) * 1e6;
}

}  // namespace lathe::backends
