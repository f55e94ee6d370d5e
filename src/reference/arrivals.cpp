#include "reference/arrivals.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/group_ops.h"

namespace lathe::reference {

namespace {

// What is known of the arrivals of threads becomes what is known on either side.
void learn(std::vector<std::uint32_t>& known, std::size_t thread, std::uint32_t arrivals) {
  if (known.size() <= thread) known.resize(thread + 1, 0);
  known[thread] = std::max(known[thread], arrivals);
}
void learn(std::vector<std::uint32_t>& known, const std::vector<std::uint32_t>& more) {
  if (known.size() < more.size()) known.resize(more.size(), 0);
  for (std::size_t i = 0; i < more.size(); ++i) known[i] = std::max(known[i], more[i]);
}

}  // namespace

void ArrivalBarriers::forget() {
  numbers_.clear();
  barriers_.clear();
}

std::uint32_t ArrivalBarriers::number(std::uint32_t memory, std::int64_t index) {
  const auto [at, fresh] =
      numbers_.try_emplace({memory, index}, static_cast<std::uint32_t>(barriers_.size()));
  if (fresh) barriers_.emplace_back();
  return at->second;
}

ArrivalBarriers::State* ArrivalBarriers::find(const Step& s, std::uint32_t memory, std::int64_t index,
                                              const Thread& t, const char* what) {
  if (!memory_.in_bounds(s, index, memory_.code.memories[memory].size, what)) return nullptr;
  State& barrier = barriers_[number(memory, index)];
  if (barrier.begun && (barrier.epoch < t.agent.epoch || barrier.thread == t.agent.thread)) return &barrier;
  memory_.fault(s, "barrier that has not begun", fmt::format("{} at {}", what, index));
  return nullptr;
}

void ArrivalBarriers::begin(const Step& s, Thread& t) {
  const std::int64_t index = t.registers[s.a].i;
  if (!memory_.in_bounds(s, index, memory_.code.memories[s.memory].size, "barrier")) return;
  State& barrier = barriers_[number(s.memory, index)];
  if (barrier.begun) memory_.fault(s, "barrier that begins twice", fmt::format("number {}", index));
  barrier.begun = true;
  barrier.thread = t.agent.thread;
  barrier.fences = t.fence_count(), barrier.epoch = t.agent.epoch;
  barrier.arrivals = barrier.left = s.node.int_attr();
}

void ArrivalBarriers::arrive(const Step& s, Thread& t) {
  State* barrier = find(s, s.memory, t.registers[s.a].i, t, "arrival");
  if (barrier == nullptr) return;
  if (barrier->left == 0)
    return memory_.fault(s, "too many arrivals", fmt::format("thread {}", t.agent.thread));
  --barrier->left;
  ++t.arrivals;
  learn(barrier->arriving, t.known);
  learn(barrier->arriving, t.agent.thread, t.arrivals);
  barrier->bytes += s.node.int_attr();
  end_phase(*barrier);
}

void ArrivalBarriers::end_phase(State& barrier) {
  if (barrier.left > 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  learn(barrier.known, barrier.arriving);
  barrier.left = barrier.arrivals;
}

void ArrivalBarriers::copy(const Step& s, Thread& t) {
  const BulkBox box = bulk_box(s.node);
  const auto source = static_cast<std::uint32_t>(s.id), barrier_memory = static_cast<std::uint32_t>(s.jump);
  const std::int64_t barrier_index = t.registers[s.dst].i;
  State* barrier = find(s, barrier_memory, barrier_index, t, "bulk copy");
  if (barrier == nullptr) return;
  const Thread& began = memory_.group[barrier->thread];
  const bool own = barrier->thread == t.agent.thread && began.fence_count() > barrier->fences;
  if (!own && !began.fenced_before(barrier->fences, t.agent.epoch))
    memory_.fault(s, "missing proxy fence", fmt::format("barrier {} is not known to copies", barrier_index));
  const std::int64_t to = t.registers[s.a].i, column = t.registers[s.b].i, row = t.registers[s.c].i;
  WatchedMemory& memory = memory_.memories[s.memory];
  WatchedMemory& from = memory_.memories[source];
  Box made{s.memory, to, box.elements() * memory_.code.memories[s.memory].dtype.bytes(), {}};
  for (std::int64_t r = 0; r < box.rows; ++r)
    for (std::int64_t c = 0; c < box.columns; ++c) {
      const std::int64_t index = to + r * box.columns + c;
      if (!memory_.in_bounds(s, index, memory.size(), "bulk copy")) return;
      if (memory.is_in_flight(index))
        memory_.fault(s, "write before arrival", fmt::format("bulk copy to {}", index));
      if (memory.note_bulk(index, t.agent, t.known)) memory_.conflict(s, s.memory, index, "bulk copy", t);
      memory.set_in_flight(index, true);
      Cell value{};
      const bool inside =
          row + r >= 0 && row + r < box.all_rows && column + c >= 0 && column + c < box.all_columns;
      const std::int64_t place = (row + r) * box.pitch + column + c;
      if (inside && memory_.in_bounds(s, place, from.size(), "bulk copy")) {
        memory_.check_read(s, source, place, t, "bulk copy");
        value = from.read(place);
      }
      made.values.push_back(value);
    }
  barrier->coming.push_back(std::move(made));
}

void ArrivalBarriers::land(State& barrier, std::uint32_t number, std::size_t which) {
  const Box& box = barrier.coming[which];
  WatchedMemory& memory = memory_.memories[box.memory];
  for (std::size_t i = 0; i < box.values.size(); ++i) {
    const std::int64_t index = box.index + static_cast<std::int64_t>(i);
    memory.set_in_flight(index, false);
    memory.write(index, box.values[i]);
    memory.note_arrival(index, {number + 1, barrier.phase});
  }
  barrier.bytes -= box.bytes;
  barrier.coming.erase(barrier.coming.begin() + static_cast<std::ptrdiff_t>(which));
  end_phase(barrier);
}

bool ArrivalBarriers::await(const Step& s, Thread& t) {
  const std::int64_t index = t.registers[s.a].i, parity = t.registers[s.b].i;
  State* barrier = find(s, s.memory, index, t, "wait");
  if (barrier == nullptr) return true;
  const std::uint32_t its_number = number(s.memory, index);
  auto ended = [&] { return static_cast<std::int64_t>(barrier->phase & 1) != parity; };
  while (!ended() && !barrier->coming.empty() && barrier->left == 0)
    land(*barrier, its_number,
         static_cast<std::size_t>(below_(static_cast<std::int64_t>(barrier->coming.size()))));
  if (!ended()) return false;
  if (t.phases.size() <= its_number) t.phases.resize(its_number + 1, 0);
  t.phases[its_number] = std::max(t.phases[its_number], barrier->phase);
  learn(t.known, barrier->known);
  return true;
}

void ArrivalBarriers::met(std::vector<Thread>& group) {
  constexpr std::int64_t kEarly = 4;  // one copy in so many comes before it is waited for
  for (std::uint32_t i = 0; i < barriers_.size(); ++i) {
    State& barrier = barriers_[i];
    for (std::size_t c = barrier.coming.size(); c-- > 0 && barrier.left == 0;)
      if (below_(kEarly) == 0) land(barrier, i, c);
    std::uint32_t known = 0;
    for (const Thread& t : group) known = std::max(known, i < t.phases.size() ? t.phases[i] : 0);
    for (Thread& t : group) {
      if (t.phases.size() <= i) t.phases.resize(i + 1, 0);
      t.phases[i] = known;
    }
  }
}

}  // namespace lathe::reference
