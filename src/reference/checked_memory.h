// The state that a run of REF checks: the memories, the threads of the running group, and the faults found.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reference/code.h"
#include "reference/memory.h"
#include "reference/reference.h"

namespace lathe::reference {

// A copy that has not arrived.
struct Flight {
  std::uint32_t memory = 0;
  std::int64_t index = 0;
  Cell value{};
  std::int64_t batch = 0;
};

struct Thread {
  std::vector<Cell> registers;
  std::size_t at = 0;
  Agent agent;
  bool finished = false;
  std::vector<Flight> flights;
  std::int64_t batch = 0;             // of the copies it makes now
  std::vector<std::uint32_t> fences;  // that it passed: the epoch of each
  std::vector<std::uint32_t> phases;  // that it knows to have ended, of each barrier of arrivals
  std::uint32_t arrivals = 0;         // that it made, and of each thread those that it knows of
  std::vector<std::uint32_t> known;
  bool waits = false;  // for one of those
  // Elements that products may still read, for each of them.
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> in_products;

  std::uint32_t fence_count() const { return static_cast<std::uint32_t>(fences.size()); }
  // Whether it passed one after the first so many, and the group met since then. It may have passed others
  // that belong to later steps.
  bool fenced_before(std::uint32_t so_many, std::uint32_t epoch) const {
    return so_many < fences.size() && fences[so_many] < epoch;
  }
};

struct CheckedMemory {
  CheckedMemory(const Code& its_code, EvalReport& its_report) : code(its_code), report(its_report) {}

  // One fault a step and kind: the first says enough.
  void fault(const Step& step, const char* kind, const std::string& detail);
  bool in_bounds(const Step& s, std::int64_t index, std::int64_t size, const char* what);
  void check_read(const Step& s, std::uint32_t memory, std::int64_t index, const Thread& t, const char* what);
  // The same of a unit: what orders it before a later bulk copy is an arrival of the thread, or a barrier.
  void check_unit_read(const Step& s, std::uint32_t memory, std::int64_t index, const Thread& t);
  void check_arrived(const Step& s, std::uint32_t memory, std::int64_t index, const Thread& t,
                     const char* what);
  void check_write(const Step& s, std::int64_t index, Thread& t, const char* what);
  void conflict(const Step& s, std::uint32_t memory, std::int64_t index, const char* what, const Thread& t);

  const Code& code;
  EvalReport& report;
  std::deque<WatchedMemory> memories;
  std::vector<Thread> group;
  std::set<std::pair<const Step*, std::string>> told;
};

}  // namespace lathe::reference
