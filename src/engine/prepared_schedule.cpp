#include "engine/prepared_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/env.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "engine/check_plan.h"
#include "engine/first_use.h"
#include "engine/kernel_check.h"
#include "engine/launch.h"
#include "engine/run_faults.h"
#include "engine/shadow.h"
#include "engine/wide_run.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "runtime/executor.h"
#include "runtime/fork_guard.h"
#include "runtime/storage.h"

namespace lathe::engine {
namespace {

// Of a plan that is part of an error.
constexpr std::size_t kPlanLines = 40;

// Buffers that results are read from and that no slot brings: each run makes them again.
std::vector<NodeRef> fresh_buffers(const Schedule& schedule, std::span<const Node> slots) {
  NodeMap<bool> known;
  for (const Node& slot : slots) known[slot] = true;
  std::vector<Node> roots(schedule.results.begin(), schedule.results.end());
  std::vector<NodeRef> fresh;
  for (const Node& node : toposort(roots))
    if (node.is(Op::Buffer) && !known.contains(node)) fresh.push_back(node);
  return fresh;
}

// The options the user attached: "[UPCAST(0, 4)]".
std::optional<std::vector<Opt>> options_of(const Step& step) {
  if (step.options.empty()) return std::nullopt;
  return parse_opts(std::string_view(step.options).substr(1, step.options.size() - 2));
}

bool has_variables(const Program& launch) {
  auto varies = [](const NodeRef& size) { return size && !size->is_const(); };
  return std::any_of(launch.groups.begin(), launch.groups.end(), varies) ||
         std::any_of(launch.locals.begin(), launch.locals.end(), varies) || varies(launch.threads);
}

// The memory of one run: arenas are borrowed for it and go back to the pools, where the next run's work is
// ordered after this one's by the bytes.
class RunMemory {
 public:
  RunMemory(const PreparedSchedule& prepared, std::span<const Node> slots) : prepared_(prepared) {
    check_room(slots);
    for (const Node& slot : slots) {
      held_.push_back(has_memory(slot));
      slots_.push_back(place_of(slot));
    }
    for (std::size_t i = 0; i < prepared.fresh.size(); ++i) {
      const Node stand_in = prepared.fresh[i];
      made.emplace_back(new_buffer_like(stand_in));
      // Where the user's program is not known, the ops that made a result are the next best thing to call it
      // by.
      std::optional<MadeAt> origin;
      if (!current_place()) origin.emplace(prepared.fresh_origins[i]);
      fresh_.push_back(place_of(made.back()));
    }
    for (const Arena& arena : prepared.memory.arenas) {
      OpenDevice& device = open_device(arena.device);
      arenas_.push_back({&device, {device.pool.take(arena.bytes), 0, arena.bytes}});
    }
    for (const PlannedBuffer& buffer : prepared.memory.buffers) {
      std::size_t arena = 0;
      while (prepared.memory.arenas[arena].device != buffer.device) ++arena;
      planned_.push_back({arenas_[arena].device, {arenas_[arena].span.memory, buffer.offset, buffer.bytes}});
    }
  }
  ~RunMemory() {
    for (const Place& arena : arenas_) arena.device->pool.give(arena.span.memory);
  }
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

  const Place& at(BufferSource source) const {
    switch (source.kind) {
      case BufferSource::Kind::Slot: return slots_[source.index];
      case BufferSource::Kind::Fresh: return fresh_[source.index];
      case BufferSource::Kind::Planned: break;
    }
    return planned_[source.index];
  }

  // Whether a step writes to memory that was there before the run.
  bool updates(const PreparedStep& step) const {
    return std::any_of(step.written_slots.begin(), step.written_slots.end(),
                       [&](std::uint32_t slot) { return held_[slot]; });
  }

  std::vector<NodeRef> made;  // the fresh buffers of this run

 private:
  // Refuses a run that cannot fit before it takes anything.
  void check_room(std::span<const Node> slots) const {
    std::vector<std::string> devices;
    auto add = [&](const std::string& device) {
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    };
    for (const Arena& arena : prepared_.memory.arenas) add(arena.device);
    for (const NodeRef& buffer : prepared_.fresh) add(buffer_device(buffer));
    for (const PlannedScratch& scratch : prepared_.memory.scratch) add(scratch.device);
    for (const std::string& name : devices) {
      const std::size_t scratch = prepared_.memory.scratch_bytes(name);
      std::size_t bytes = prepared_.bytes_needed(name) + scratch;
      for (const Node& slot : slots)
        if (buffer_device(slot) == name && !has_memory(slot))
          bytes += MemoryPool::rounded(buffer_bytes(slot));
      try {
        open_device(name).pool.check_room(bytes);
      } catch (OutOfMemory& error) {
        error.note(fmt::format(
            "planned: {} for results, {} for intermediates (they would take {} without sharing){}",
            human_bytes(bytes - scratch - prepared_.memory.arena_bytes(name)),
            human_bytes(prepared_.memory.arena_bytes(name)), human_bytes(prepared_.memory.unshared_bytes()),
            scratch > 0 ? fmt::format(", {} of scratch memory", human_bytes(scratch)) : ""));
        std::string plan = to_string(prepared_.memory, kPlanLines);
        if (!plan.empty()) error.note(std::string_view(plan).substr(0, plan.size() - 1));
        error.help("compute in smaller pieces, or raise LATHE_MEMORY_LIMIT");
        throw;
      }
    }
  }

  const PreparedSchedule& prepared_;
  std::vector<Place> slots_, fresh_, arenas_, planned_;
  std::vector<bool> held_;  // slots that had memory before
};

// Its memory computes nothing.
bool is_file(const OpenDevice& device) { return device.compiler == nullptr; }

void run_copy(const Step& step, const PreparedStep& ready, const RunMemory& memory, RunFaults& faults) {
  const Place to = memory.at(ready.buffers[0]);
  Place from = memory.at(ready.buffers[1]);
  if (const Faults& held = faults.at(ready.buffers[1]); held != nullptr && is_file(*to.device)) {
    executor().wait_written(*from.device, from.span);  // a file is read by others, who would not be told
    check_faults(held);
  }
  from.span.offset += static_cast<std::size_t>(step.from_offset);
  from.span.bytes = to.span.bytes;
  executor().copy(to, from);
  faults.copied(ready);
}

std::vector<Place> places_of(const PreparedStep& ready, const RunMemory& memory) {
  std::vector<Place> places;
  for (const BufferSource& source : ready.buffers) places.push_back(memory.at(source));
  return places;
}

void run_kernel(const Step& step, const PreparedStep& ready, const RunMemory& memory, Bindings bindings,
                RunFaults& faults, JoinedLaunches& joined) {
  const ReadyKernel* kernel = &ready.kernel;
  ReadyKernel current;
  if (flag_on(Flag::Wide)) {
    joined.submit();
    if (run_wide(step, places_of(ready, memory), bindings)) return faults.launched(step, ready, nullptr);
  }
  const bool due = kernel->check->due.load(std::memory_order_relaxed);
  if (due && has_something_due(*kernel, *ready.device, bindings)) [[unlikely]] {
    joined.submit();
    current = ready.kernel;
    const std::vector<Place> places = places_of(ready, memory);
    LaunchFaultRef fault;
    if (launch_checked(step, current, *ready.device, places, bindings, fault))
      return faults.launched(step, ready, fault);
    kernel = &current;
  }
  const MadeKernel& made = *kernel->made;
  const bool same = &made == ready.kernel.made && !ready.symbolic;
  const Grid grid = same ? ready.grid : grid_of(made.launch, bindings);
  if (is_empty(grid)) return;
  const auto place_at = [&](std::size_t slot) -> const Place& { return memory.at(ready.buffers[slot]); };
  if (kernel == &ready.kernel && joined.take(step, made, *ready.device, *kernel, grid, bindings, place_at))
    return faults.launched(step, ready, nullptr);
  joined.submit();
  const Launch launch(step, *ready.device, *kernel, grid, bindings, place_at);
  if (flag_on(Flag::Verify)) {
    const std::vector<Place> places = places_of(ready, memory);
    Shadow shadow(step, made, places, bindings);
    run_launch(step, made, launch, Wait::Yes);
    shadow.compare();
  } else {
    run_launch(step, made, launch, Wait::No);
  }
  faults.launched(step, ready, launch.fault());
}

template <class Failure>
void tell_of_updates(Failure& error) {
  error.note("tensors that were written in place before this hold their new values");
  error.help("load them again: computing them again would write them twice");
}

void run_steps(const PreparedSchedule& prepared, const RunMemory& memory, Bindings bindings,
               RunFaults& faults) {
  bool updated = false;
  JoinedLaunches joined(*prepared.launches);
  try {
    for (std::size_t i = 0; i < prepared.steps.size(); ++i) {
      const Step& step = prepared.schedule.steps[i];
      if (!updated) stop_before("run", step.name);
      if (step.is_copy()) {
        joined.submit();
        run_copy(step, prepared.steps[i], memory, faults);
      } else {
        run_kernel(step, prepared.steps[i], memory, bindings, faults, joined);
      }
      updated = updated || memory.updates(prepared.steps[i]);
    }
    joined.submit();
  } catch (InternalError& error) {
    if (updated) tell_of_updates(error);
    throw;
  } catch (DeviceError& error) {
    if (updated) tell_of_updates(error);
    throw;
  }
}

std::vector<std::uint32_t> written_slots(const Step& step, const PreparedStep& ready) {
  std::vector<std::uint32_t> slots;
  auto add = [&](BufferSource to) {
    if (to.kind == BufferSource::Kind::Slot) slots.push_back(to.index);
  };
  if (step.is_copy()) {
    add(ready.buffers[0]);
    return slots;
  }
  for (const ProgramParam& param : buffer_params(ready.kernel.made->launch))
    if (param.writes) add(ready.buffers[static_cast<std::size_t>(param.slot)]);
  return slots;
}

}  // namespace

std::size_t PreparedSchedule::bytes_needed(const std::string& device) const {
  const std::size_t arena = memory.arena_bytes(device);
  std::size_t sum = arena == 0 ? 0 : MemoryPool::rounded(arena);
  for (const NodeRef& buffer : fresh)
    if (buffer_device(buffer) == device) sum += MemoryPool::rounded(buffer_bytes(buffer));
  return sum;
}

namespace {

// The kernels of the steps that are no copies, with their options chosen.
void make_kernels(PreparedSchedule& made, std::span<const std::string_view> saved, KernelCode code) {
  std::vector<KernelRequest> requests;
  for (std::size_t i = 0; i < made.steps.size(); ++i) {
    const Step& step = made.schedule.steps[i];
    if (step.is_copy()) continue;
    requests.push_back({step.ast, step.name, made.steps[i].device, options_of(step)});
    requests.back().share_code = code == KernelCode::Shared;
    if (!saved.empty()) requests.back().saved = saved[i];
  }
  const std::vector<ReadyKernel> kernels = ready_kernels(requests);
  std::size_t next = 0;
  for (std::size_t i = 0; i < made.steps.size(); ++i) {
    if (made.schedule.steps[i].is_copy()) continue;
    PreparedStep& ready = made.steps[i];
    ready.kernel = kernels[next++];
    made.shares_code |= shares_code(ready.kernel);
    ready.symbolic = has_variables(ready.kernel.made->launch);
    if (!ready.symbolic) ready.grid = grid_of(ready.kernel.made->launch, {});
  }
}

// By step.
std::vector<std::size_t> scratch_of(const PreparedSchedule& made) {
  std::vector<std::size_t> bytes;
  for (const PreparedStep& ready : made.steps) {
    const Kernel* kernel = ready.kernel.kernel;
    const std::int64_t parts =
        kernel != nullptr && ready.kernel.made->launch.threads ? ready.kernel.made->launch.threads->hi() : 1;
    bytes.push_back(kernel != nullptr ? ready.device->device->scratch_bytes(*kernel, parts) : 0);
  }
  return bytes;
}

// Where each buffer of a step comes from; the first step to use a fresh one is the one that makes it.
void find_sources(PreparedSchedule& made) {
  NodeMap<BufferSource> sources;
  const auto add = [&](Node buffer, BufferSource::Kind kind, std::size_t i) {
    sources[buffer] = {kind, static_cast<std::uint32_t>(i)};
  };
  for (std::size_t i = 0; i < made.slots.size(); ++i) add(made.slots[i], BufferSource::Kind::Slot, i);
  for (std::size_t i = 0; i < made.fresh.size(); ++i) add(made.fresh[i], BufferSource::Kind::Fresh, i);
  for (std::size_t i = 0; i < made.memory.buffers.size(); ++i)
    add(made.memory.buffers[i].buffer, BufferSource::Kind::Planned, i);
  made.fresh_origins.resize(made.fresh.size());
  for (std::size_t i = 0; i < made.steps.size(); ++i) {
    const Step& step = made.schedule.steps[i];
    PreparedStep& ready = made.steps[i];
    for (const NodeRef& buffer : step.buffers) {
      const BufferSource source = *sources.find(buffer);
      ready.buffers.push_back(source);
      check_internal(step.is_copy() || &open_device(buffer_device(buffer)) == ready.device, "engine",
                     "a kernel is to read memory of another device");
      if (source.kind != BufferSource::Kind::Fresh) continue;
      if (std::string& origin = made.fresh_origins[source.index]; origin.empty()) origin = step.origin;
    }
    ready.written_slots = written_slots(step, ready);
  }
}

}  // namespace

std::shared_ptr<const PreparedSchedule> prepare_schedule(Schedule schedule, std::span<const Node> slots,
                                                         std::span<const std::string_view> saved,
                                                         KernelCode code) {
  auto made = std::make_shared<PreparedSchedule>();
  made->schedule = std::move(schedule);
  made->slots.assign(slots.begin(), slots.end());
  made->fresh = fresh_buffers(made->schedule, slots);
  for (const Step& step : made->schedule.steps) {
    made->steps.emplace_back();
    made->steps.back().device = &open_device(step.device);
  }
  make_kernels(*made, saved, code);
  // After options are chosen: what kernels work in depends on them.
  std::vector<Node> kept(slots.begin(), slots.end());
  kept.insert(kept.end(), made->fresh.begin(), made->fresh.end());
  made->memory =
      plan_memory(made->schedule, kept, scratch_of(*made), flag_on(Flag::Reuse) ? Sharing::Yes : Sharing::No);
  if (flag_on(Flag::Verify)) check_plan(made->memory, made->schedule);
  find_sources(*made);
  return made;
}

std::vector<NodeRef> run(const PreparedSchedule& prepared, std::span<const Node> slots, Bindings bindings) {
  refuse_in_forked_child();
  const Scope scope;
  check_internal(slots.size() == prepared.slots.size(), "engine", "a run needs one buffer for each slot");
  const RunMemory memory(prepared, slots);
  RunFaults faults(prepared, slots);
  try {
    run_steps(prepared, memory, bindings, faults);
  } catch (...) {
    faults.finish(slots, memory.made);  // what was submitted may still find an index outside
    throw;
  }
  faults.finish(slots, memory.made);
  NodeMap<Node> actual;
  for (std::size_t i = 0; i < slots.size(); ++i) actual[prepared.slots[i]] = slots[i];
  for (std::size_t i = 0; i < prepared.fresh.size(); ++i) actual[prepared.fresh[i]] = memory.made[i];
  std::vector<NodeRef> results;
  for (const NodeRef& result : prepared.schedule.results) results.emplace_back(substitute(result, actual));
  return results;
}

}  // namespace lathe::engine
