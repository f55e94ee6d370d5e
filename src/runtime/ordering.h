// Finds which work a new piece of work must wait for, from the bytes each reads and writes. Work is entered
// in program order; two pieces that access a common byte, at least one of them writing, must run in that
// order. Queues run their own work in order, so only waits between queues are needed, and only those that no
// other wait implies:
//
//   queue 0: write x (1)
//   queue 1: read x, write y (1)      waits for 0:1
//   queue 2: read x, read y (1)       waits for 1:1; 0:1 is implied by it
//
// Removing any of these waits leaves a conflicting pair unordered (tests show it with race_check.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/small_vector.h"
#include "runtime/race_check.h"

namespace lathe {

class Ordering {
 public:
  // A new queue; they are numbered from 0.
  int add_queue();

  struct Entered {
    WorkPoint point;
    std::vector<WorkPoint> after;  // by queue number
  };
  // Enters a work and says what it must wait for.
  Entered enter(int queue, std::span<const ByteRange> reads, std::span<const ByteRange> writes);

  // What it would have to wait for, without entering it.
  std::vector<WorkPoint> needed_by(int queue, std::span<const ByteRange> reads,
                                   std::span<const ByteRange> writes) const;

  // What must have ended before the host itself may read (or write) these bytes.
  std::vector<WorkPoint> users(const ByteRange& range, bool writing) const;

  // The host has seen this work end, and so all that the work had waited for.
  void host_waited(WorkPoint point);

  // The last work entered in a queue (number 0: none).
  WorkPoint last(int queue) const;
  bool ended(WorkPoint point) const { return point.number <= host_[static_cast<std::size_t>(point.queue)]; }
  int queues() const { return static_cast<int>(lines_.size()); }
  std::size_t segments() const;  // bytes ranges remembered, for tests: must not grow without end

 private:
  // For each queue, how many of its works are known to have ended.
  using Clock = SmallVector<std::uint64_t, 8>;
  // Bytes with one history: who wrote them last and who has read them since (at most one point per queue).
  struct Segment {
    std::uint64_t end = 0;
    WorkPoint write;
    SmallVector<WorkPoint, 2> reads;
  };
  using Segments = std::map<std::uint64_t, Segment>;  // by begin; they do not overlap
  struct Line {
    std::uint64_t last = 0;   // number of the newest work
    Clock known;              // what that work's end implies
    std::uint64_t first = 1;  // number of ends.front()
    std::deque<Clock> ends;   // what each work's end implies, from `first` on
  };

  void need(Clock& needed, WorkPoint point) const;
  void need_users(Clock& needed, const ByteRange& range, bool writing) const;
  void read(const ByteRange& range, WorkPoint point, Clock& needed);
  void write(const ByteRange& range, WorkPoint point, Clock& needed);
  static void split(Segments& segments, std::uint64_t at);
  const Clock* implied(WorkPoint point) const;
  std::vector<WorkPoint> reduce(const Clock& needed, int queue) const;
  void forget_ended();

  std::vector<Line> lines_;
  Clock host_;
  std::unordered_map<std::uint64_t, Segments> spaces_;
  std::size_t prune_at_ = 1024, entered_ = 0;
};

}  // namespace lathe
