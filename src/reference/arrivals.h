// Barriers of bulk copies (ir/group_ops.h). A copy arrives as late as possible, when a thread waits that
// needs it, in random order; a few arrive earlier, at a group barrier. So a program that does not wait, or
// waits for the wrong phase, reads the old content.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "reference/checked_memory.h"

namespace lathe::reference {

class ArrivalBarriers {
 public:
  // `below(n)` is a random number below n.
  ArrivalBarriers(CheckedMemory& memory, std::function<std::int64_t(std::int64_t)> below)
      : memory_(memory), below_(std::move(below)) {}

  void forget();  // the group's memory is another's now
  void begin(const Step& s, Thread& t);
  void arrive(const Step& s, Thread& t);
  void copy(const Step& s, Thread& t);
  // Whether the thread can go on.
  bool await(const Step& s, Thread& t);
  // The group has met: what one thread waited for, all may touch.
  void met(std::vector<Thread>& group);

 private:
  struct Box {
    std::uint32_t memory = 0;
    std::int64_t index = 0, bytes = 0;
    std::vector<Cell> values;
  };
  struct State {
    bool begun = false;
    std::uint16_t thread = 0;  // that began it, how many fences it had passed, and when
    std::uint32_t fences = 0, epoch = 0;
    std::int64_t arrivals = 0, left = 0;  // of a phase
    std::int64_t bytes = 0;               // announced and not there yet
    std::uint32_t phase = 0;
    std::vector<std::uint32_t> arriving, known;  // arrivals of threads: in this phase, and in all that ended
    std::vector<Box> coming;
  };

  // The barrier of a step, or null where there is none that this thread may use.
  State* find(const Step& s, std::uint32_t memory, std::int64_t index, const Thread& t, const char* what);
  std::uint32_t number(std::uint32_t memory, std::int64_t index);
  void land(State& barrier, std::uint32_t number, std::size_t which);
  static void end_phase(State& barrier);

  CheckedMemory& memory_;
  std::function<std::int64_t(std::int64_t)> below_;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> numbers_;
  std::vector<State> barriers_;
};

}  // namespace lathe::reference
