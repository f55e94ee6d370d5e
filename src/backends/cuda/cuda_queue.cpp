#include "backends/cuda/cuda_queue.h"

#include <map>
#include <memory>

#include "base/error.h"

namespace lathe::backends {
namespace {

constexpr std::size_t kMarks = 1024;  // works whose events are kept

struct AllQueues {
  std::mutex mutex;
  std::map<int, std::unique_ptr<CudaQueue>> by_number;
};
AllQueues& all_queues() {
  static auto* all = new AllQueues;  // never destroyed: the driver may end before static objects do
  return *all;
}

}  // namespace

void CudaQueue::make(int number, const CudaDriver& driver) {
  AllQueues& all = all_queues();
  std::lock_guard lock(all.mutex);
  auto& queue = all.by_number[number];
  if (!queue) queue = std::make_unique<CudaQueue>(number, driver);
}

CudaQueue& CudaQueue::numbered(int number) {
  AllQueues& all = all_queues();
  std::lock_guard lock(all.mutex);
  auto found = all.by_number.find(number);
  check_internal(found != all.by_number.end(), "CUDA", "an event of a queue that was never made");
  return *found->second;
}

CudaQueue::CudaQueue(int number, const CudaDriver& driver) : driver_(driver), number_(number) {
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

CudaQueue::Mark CudaQueue::find(std::uint64_t value) {
  std::lock_guard lock(mutex_);
  if (marks_.empty() || value < marks_.front().value || value > marks_.back().value) return {};
  return marks_[value - marks_.front().value];
}

Event CudaQueue::submit(std::span<const Event> after, bool timed, const std::function<void(CuStream)>& work) {
  for (const Event& event : after) {
    if (event.queue == number_ || event.value == 0) continue;  // a stream keeps its own order
    if (CuEvent end = numbered(event.queue).find(event.value).end)
      driver_.check(driver_.stream_wait(stream_, end, 0), "waiting for another stream");
  }
  std::lock_guard lock(mutex_);
  Mark mark;
  mark.end = take_event(timed);
  if (timed) {
    mark.start = take_event(true);
    driver_.check(driver_.event_record(mark.start, stream_), "recording an event");
  }
  work(stream_);
  driver_.check(driver_.event_record(mark.end, stream_), "recording an event");
  mark.value = ++given_;
  marks_.push_back(mark);
  retire();
  return {number_, mark.value};
}

void CudaQueue::wait(std::uint64_t value) {
  CuEvent end;
  {
    std::lock_guard lock(mutex_);
    if (value <= happened_) return;
  }
  end = find(value).end;
  // An event that was given back belongs to work that has happened.
  if (end != nullptr) driver_.check(driver_.event_synchronize(end), "running a kernel or a copy");
  std::lock_guard lock(mutex_);
  happened_ = std::max(happened_, value);
}

double CudaQueue::elapsed_ns(Event from, Event to) {
  Mark first = numbered(from.queue).find(from.value), last = numbered(to.queue).find(to.value);
  if (first.start == nullptr || last.start == nullptr) return 0;
  float milliseconds = 0;
  const CudaDriver& driver = numbered(from.queue).driver_;
  driver.check(driver.event_elapsed(&milliseconds, first.start, last.end), "reading a time");
  return static_cast<double>(milliseconds) * 1e6;
}

}  // namespace lathe::backends
