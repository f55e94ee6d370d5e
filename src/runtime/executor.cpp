#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "runtime/devices.h"
#include "runtime/faults.h"
#include "runtime/fork_guard.h"

namespace lathe {

Executor& executor() {
  static auto* all = new Executor;  // never destroyed: devices work until the process ends
  return *all;
}

// Memory the host can reach is compared by address, since two devices, or a device and the caller, may share
// it; other memory by its handle, which is some number of the backend's.
ByteRange byte_range(const Place& place) {
  const Span& span = place.span;
  if (span.memory.host != nullptr) {
    const auto begin = reinterpret_cast<std::uint64_t>(span.memory.host) + span.offset;
    return {0, begin, begin + span.bytes};
  }
  const std::uint64_t space = hash_all(place.device->backend_number, span.memory.handle) | 1;
  return {space, span.offset, span.offset + span.bytes};
}

int Executor::add_queue(OpenDevice& device, Queue queue) {
  std::lock_guard guard(mutex_);
  lines_.push_back({&device, queue, 1, {}, {}});
  several_backends_ |= lines_.front().device->backend_number != device.backend_number;
  return ordering_.add_queue();
}

Executor::Submitted Executor::submit(OpenDevice& device, Queue queue, std::span<const Place> reads,
                                     std::span<const Place> writes, std::string_view name, Submit call,
                                     void* context) {
  refuse_in_forked_child();
  std::unique_lock lock(mutex_);
  SmallVector<ByteRange, 8> read_ranges, write_ranges;
  for (const Place& place : reads) read_ranges.push_back(byte_range(place));
  for (const Place& place : writes) write_ranges.push_back(byte_range(place));
  const int number = device.queues[static_cast<std::size_t>(queue)];
  wait_for_other_backends(lock, device, number, read_ranges, write_ranges);
  const Ordering::Entered entered = ordering_.enter(number, read_ranges, write_ranges);

  SmallVector<Event, 8> events;
  std::vector<WorkPoint> told;
  for (const WorkPoint& point : entered.after) {
    const Line& other = lines_[static_cast<std::size_t>(point.queue)];
    if (ordering_.ended(point)) continue;
    events.push_back(other.events[point.number - other.first]);
    told.push_back(point);
  }
  Line& line = lines_[static_cast<std::size_t>(number)];
  if (logging_)
    log_.push_back({false,
                    entered.point,
                    std::move(told),
                    {read_ranges.begin(), read_ranges.end()},
                    {write_ranges.begin(), write_ranges.end()},
                    std::string(name)});
  // If the call throws, the work counts as ended with the one before it: numbers and events stay in step.
  line.events.push_back(line.events.empty() ? line.last_ended : line.events.back());
  line.events.back() = call(context, events);
  const Event event = line.events.back();
  lock.unlock();
  device.device->run_left(event);
  if (flag_on(Flag::Serial)) {
    lock.lock();
    wait_for(lock, entered.point);
  }
  return {entered.point, event};
}

// No backend knows another's events: the host waits. Other threads may submit meanwhile, also what this work
// then has to wait for, so it is asked again.
void Executor::wait_for_other_backends(std::unique_lock<std::mutex>& lock, const OpenDevice& device,
                                       int queue, std::span<const ByteRange> reads,
                                       std::span<const ByteRange> writes) {
  const auto is_foreign = [&](const WorkPoint& point) {
    return lines_[static_cast<std::size_t>(point.queue)].device->backend_number != device.backend_number;
  };
  while (several_backends_) {
    const std::vector<WorkPoint> needed = ordering_.needed_by(queue, reads, writes);
    const auto foreign = std::find_if(needed.begin(), needed.end(), is_foreign);
    if (foreign == needed.end()) return;
    wait_for(lock, *foreign);
  }
}

Executor::Submitted Executor::submit(const LaunchWork& work) {
  struct Context {
    const LaunchWork& work;
  } context{work};
  const Submitted done = submit(
      *work.device, work.queue, work.reads, work.writes, work.name,
      [](void* c, std::span<const Event> after) {
        const LaunchWork& w = static_cast<Context*>(c)->work;
        return w.device->device->launch(w.queue, *w.kernel, w.grid, w.args, after);
      },
      &context);
  std::vector<std::shared_ptr<LaunchFault>> ended;  // dies outside the lock: lines may be another language's
  std::lock_guard guard(mutex_);
  counters_.kernels += work.counted;
  if (work.fault == nullptr) return done;
  work.fault->until = done.point;
  faults_.push_back(work.fault);
  if (faults_.size() > most_faults_) {
    ended = take_ended_faults(true);
    most_faults_ = std::max<std::size_t>(64, 2 * faults_.size());
  }
  return done;
}

// Those of launches that have ended: all, or those that have nothing to tell.
std::vector<std::shared_ptr<LaunchFault>> Executor::take_ended_faults(bool no_news_only) {
  std::vector<std::shared_ptr<LaunchFault>> taken, left;
  for (std::shared_ptr<LaunchFault>& fault : faults_) {
    const bool news = fault->reported() && !fault->told;
    const bool take = ordering_.ended(fault->until) && !(no_news_only && news);
    if (take && !fault->reported()) fault->clean = true;
    (take ? taken : left).push_back(std::move(fault));
  }
  faults_ = std::move(left);
  return taken;
}

void Executor::throw_faults() {
  std::vector<std::shared_ptr<LaunchFault>> ended;
  {
    std::lock_guard guard(mutex_);
    ended = take_ended_faults(false);
  }
  for (const std::shared_ptr<LaunchFault>& fault : ended)
    if (fault->reported() && !fault->told) fault->raise();
}

WorkPoint Executor::launch(const LaunchWork& work) { return submit(work).point; }

WorkPoint Executor::launch_all(const JoinedWork& work) {
  struct Context {
    const JoinedWork& work;
  } context{work};
  const Submitted done = submit(
      *work.device, work.queue, work.reads, work.writes, work.name,
      [](void* c, std::span<const Event> after) {
        const JoinedWork& w = static_cast<Context*>(c)->work;
        return w.device->device->launch_all(w.queue, w.calls, *w.known, after);
      },
      &context);
  std::lock_guard guard(mutex_);
  counters_.kernels += work.calls.size();
  return done.point;
}

double Executor::launch_timed(const LaunchWork& work) {
  Device& device = *work.device->device;
  device.set_timing(true);
  const Submitted done = submit(work);
  device.set_timing(false);
  wait(done.point);
  return device.elapsed_ns(done.event, done.event);
}

WorkPoint Executor::copy_with(OpenDevice& device, Queue queue, const Place& to, const Place& from) {
  struct Context {
    OpenDevice& device;
    Queue queue;
    const Place &to, &from;
  } context{device, queue, to, from};
  return submit(
             device, queue, {&from, 1}, {&to, 1}, "copy",
             [](void* c, std::span<const Event> after) {
               auto& k = *static_cast<Context*>(c);
               return k.device.device->copy(k.queue, k.to.span, k.from.span, after);
             },
             &context)
      .point;
}

WorkPoint Executor::copy(const Place& to, const Place& from, Queue queue) {
  check_internal(to.device != nullptr || from.device != nullptr, "executor", "a copy needs a device");
  check_internal(to.span.bytes == from.span.bytes, "executor",
                 "the source and target of a copy differ in size");
  if (to.device != nullptr && from.device != nullptr && to.device != from.device) {
    std::lock_guard guard(mutex_);
    ++counters_.copies;
    counters_.bytes_copied += to.span.bytes;
  }
  auto reaches = [](const Place& worker, const Place& other) {
    return worker.device != nullptr &&
           (other.span.memory.host != nullptr || worker.device->device->reaches(*other.device->device));
  };
  const auto queue_of = [&](const OpenDevice& device) {
    return queue < device.device->queues() ? queue : kMainQueue;
  };
  if (reaches(to, from)) return copy_with(*to.device, queue_of(*to.device), to, from);
  if (reaches(from, to)) return copy_with(*from.device, queue_of(*from.device), to, from);
  return copy_through_host(to, from, queue);
}

WorkPoint Executor::copy_through_host(const Place& to, const Place& from, Queue queue) {
  const std::size_t bytes = to.span.bytes;
  auto memory = std::make_unique<std::byte[]>(bytes);
  const Place host{nullptr, {{0, bytes, memory.get()}, 0, bytes}};
  copy(host, from, queue);
  const WorkPoint done = copy(to, host, queue);
  std::lock_guard guard(mutex_);
  std::erase_if(bounces_, [&](const Bounce& bounce) { return ordering_.ended(bounce.until); });
  bounces_.push_back({done, std::move(memory)});
  return done;
}

void Executor::note_ended(WorkPoint point) {
  if (logging_) {
    log_.push_back({});
    log_.back().host_wait = true;
    log_.back().point = point;
  }
  ordering_.host_waited(point);
  for (std::size_t q = 0; q < lines_.size(); ++q) {
    Line& line = lines_[q];
    while (!line.events.empty() && ordering_.ended({static_cast<int>(q), line.first})) {
      line.last_ended = line.events.front();
      line.events.pop_front();
      ++line.first;
    }
  }
}

// Other threads may submit meanwhile, so the lock is not held while waiting.
void Executor::wait_for(std::unique_lock<std::mutex>& lock, WorkPoint point) {
  if (point.number == 0 || ordering_.ended(point)) return;
  const Line& line = lines_[static_cast<std::size_t>(point.queue)];
  const Event event = line.events[point.number - line.first];
  Device& device = *line.device->device;
  lock.unlock();
  device.wait(event);
  lock.lock();
  if (!ordering_.ended(point)) note_ended(point);
}

void Executor::wait(WorkPoint point) {
  refuse_in_forked_child();
  std::unique_lock lock(mutex_);
  wait_for(lock, point);
}

void Executor::wait_users(OpenDevice& device, const Span& span, bool writing) {
  refuse_in_forked_child();
  std::unique_lock lock(mutex_);
  for (const WorkPoint& point : ordering_.users(byte_range({&device, span}), writing)) wait_for(lock, point);
}

void Executor::wait_written(OpenDevice& device, const Span& span) { wait_users(device, span, false); }
void Executor::wait_unused(OpenDevice& device, const Span& span) { wait_users(device, span, true); }

void Executor::synchronize() {
  refuse_in_forked_child();
  std::unique_lock lock(mutex_);
  for (int queue = 0; queue < ordering_.queues(); ++queue) wait_for(lock, ordering_.last(queue));
  std::erase_if(bounces_, [&](const Bounce& bounce) { return ordering_.ended(bounce.until); });
}

void Executor::set_log(bool on) {
  std::lock_guard guard(mutex_);
  logging_ = on;
}

std::vector<WorkRecord> Executor::take_log() {
  std::lock_guard guard(mutex_);
  return std::exchange(log_, {});
}

ExecutorCounters Executor::counters() const {
  std::lock_guard guard(mutex_);
  return counters_;
}

void Executor::reset_counters() {
  std::lock_guard guard(mutex_);
  counters_ = {};
}

}  // namespace lathe
