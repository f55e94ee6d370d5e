// Finds missing waits between queues. The executor can log the work it submitted and the waits between it;
// this checker replays the log with vector clocks and reports every unordered pair of work that accesses the
// same bytes, at least one of them writing. It shares no code with the part of the executor that derives
// waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lathe {

// Bytes [begin, end) of an address space: the host's is 0, a backend's own memory has others.
struct ByteRange {
  std::uint64_t space = 0;
  std::uint64_t begin = 0, end = 0;
  bool overlaps(const ByteRange& other) const {
    return space == other.space && std::max(begin, other.begin) < std::min(end, other.end);
  }
};

// The n-th work (from 1) of a queue, queues numbered over all devices.
struct WorkPoint {
  int queue = 0;
  std::uint64_t number = 0;
  bool operator==(const WorkPoint&) const = default;
};

// One line of the log, in the order in which the host did it.
struct WorkRecord {
  bool host_wait = false;        // the host waited for `point`: all that follows is after it
  WorkPoint point;               // else: this work was given to its queue
  std::vector<WorkPoint> after;  // what it was told to wait for
  std::vector<ByteRange> reads, writes;
  std::string name;
};

struct Race {
  std::size_t first = 0, second = 0;  // positions in the log
  ByteRange bytes;                    // some bytes both touch
};

// All pairs without an order, in the order of the log.
std::vector<Race> find_races(std::span<const WorkRecord> log);

// "copy b (queue 1, work 4) and kernel a (queue 0, work 2) touch bytes 0..64 of space 0 without an order".
std::string to_string(const Race& race, std::span<const WorkRecord> log);

}  // namespace lathe
