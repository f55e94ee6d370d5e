#include "reference/checked_memory.h"

#include <fmt/format.h>

#include "ir/text.h"

namespace lathe::reference {

constexpr std::size_t kMaxFaults = 16;

void CheckedMemory::fault(const Step& step, const char* kind, const std::string& detail) {
  if (report.faults.size() >= kMaxFaults || !told.insert({&step, kind}).second) return;
  report.faults.push_back(
      fmt::format("{}: {}{}", kind, detail, step.node ? " in " + print_node(step.node) : ""));
}

bool CheckedMemory::in_bounds(const Step& s, std::int64_t index, std::int64_t size, const char* what) {
  if (index >= 0 && index < size) return true;
  fault(
      s, "out of bounds",
      fmt::format("{} of {} at {}, which has {} elements", what, code.memories[s.memory].name, index, size));
  return false;
}

void CheckedMemory::check_read(const Step& s, std::uint32_t memory, std::int64_t index, const Thread& t,
                               const char* what) {
  check_arrived(s, memory, index, t, what);
  if (memories[memory].note_read(index, t.agent)) conflict(s, memory, index, what, t);
}
void CheckedMemory::check_arrived(const Step& s, std::uint32_t memory, std::int64_t index, const Thread& t,
                                  const char* what) {
  WatchedMemory& m = memories[memory];
  if (m.is_in_flight(index))
    fault(s, "read before arrival", fmt::format("{} of {} at {}", what, code.memories[memory].name, index));
  else if (!m.is_set(index))
    fault(s, "uninitialised read", fmt::format("{} of {} at {}", what, code.memories[memory].name, index));
  else if (const WatchedMemory::Arrival a = m.arrival(index);
           a.barrier > 0 && (t.phases.size() < a.barrier || t.phases[a.barrier - 1] <= a.phase))
    fault(s, "read before arrival",
          fmt::format("{} of {} at {} by thread {}, which has not waited for it", what,
                      code.memories[memory].name, index, t.agent.thread));
}
void CheckedMemory::check_unit_read(const Step& s, std::uint32_t memory, std::int64_t index,
                                    const Thread& t) {
  check_arrived(s, memory, index, t, "product");
  if (memories[memory].note_unit_read(index, t.agent, t.arrivals)) conflict(s, memory, index, "product", t);
}
void CheckedMemory::check_write(const Step& s, std::int64_t index, Thread& t, const char* what) {
  WatchedMemory& m = memories[s.memory];
  if (m.is_in_flight(index))
    fault(s, "write before arrival",
          fmt::format("{} to {} at {}", what, code.memories[s.memory].name, index));
  if (m.note_write(index, t.agent) && !code.memories[s.memory].is_fault_cell)
    conflict(s, s.memory, index, what, t);
  if (code.memories[s.memory].kind == MemorySlot::Kind::Group) m.note_fences(index, t.fence_count());
}

void CheckedMemory::conflict(const Step& s, std::uint32_t memory, std::int64_t index, const char* what,
                             const Thread& t) {
  fault(s, "race",
        fmt::format("{} of {} at {} by thread {} with no order to another's access", what,
                    code.memories[memory].name, index, t.agent.thread));
}

}  // namespace lathe::reference
