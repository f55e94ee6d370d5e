#include "engine/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include "base/env.h"
#include "base/error.h"
#include "engine/build_id.h"
#include "engine/compile_context.h"
#include "engine/counting.h"
#include "engine/debug.h"
#include "engine/disk_cache.h"
#include "engine/fold_steps.h"
#include "engine/graph_key.h"
#include "engine/graph_text.h"
#include "engine/in_flight.h"
#include "engine/lay_out_steps.h"
#include "engine/prepared_schedule.h"
#include "engine/schedule_cache.h"
#include "engine/schedule_text.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "runtime/devices.h"
#include "runtime/executor.h"
#include "runtime/faults.h"
#include "runtime/fork_guard.h"
#include "runtime/storage.h"
#include "schedule/memory_view.h"

namespace lathe {

namespace backends {
void register_all(Registry& registry);
}

namespace engine {
namespace {

// Whoever links the engine gets every backend of the build: runtime/registry.cpp only has a weak reference.
[[gnu::used]] void (*const kBackends)(Registry&) = backends::register_all;

struct State {
  std::mutex mutex;  // one computation is prepared at a time
  ScheduleCache schedules;
  InFlight in_flight;

  std::mutex device_mutex;
  std::string device;  // set_default_device

  std::mutex counters_mutex;
  Counters counters;
};

State& state() {
  static auto* all = new State;  // never destroyed: tensors may die during exit
  return *all;
}

thread_local Observer observer;
thread_local bool host_reads_forbidden = false;
thread_local std::uint64_t host_reads_done = 0;
thread_local std::vector<NodeRef>* host_data = nullptr;

// What all devices that a graph may use agree to: the tightest limit of buffers, and rows as each of them can
// work through them; and what each says of its threads. Gives all of that as text, for keys.
std::string apply_limits(const GraphKey& key, std::span<const Node> targets, ScheduleOptions& options) {
  std::vector<std::string> names{options.default_device}, slow;
  auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Node& buffer : key.buffers) add(buffer_device(buffer));
  for (const Node& node : toposort(targets))
    if (node.is(Op::Copy)) add(node.text());
  for (const std::string& name : names) {
    const OpenDevice& device = open_device(name);
    if (device.compiler == nullptr) continue;
    const Target& target = device.compiler->target();
    int& limit = options.max_buffers;
    if (target.max_buffers > 0 && (limit == 0 || target.max_buffers < limit)) limit = target.max_buffers;
    options.rows = std::min(options.rows, rows_of(target));
    if (!target.has_fast_threads()) slow.push_back(name);
    options.unit_folds &= !target.groups || has_unit_folds(target);
  }
  options.fast_threads = [slow](const std::string& device) {
    return std::find(slow.begin(), slow.end(), device) == slow.end();
  };
  return fmt::format("{} {} {} {}\n", options.max_buffers, static_cast<int>(options.rows), options.unit_folds,
                     fmt::join(slow, " "));
}

// Scheduling that took no longer than this is done again by the next process: reading would not be quicker.
constexpr auto kWorthKeeping = std::chrono::milliseconds(2);

Schedule scheduled(const Normalised& graph, const GraphKey& key, const ScheduleOptions& options,
                   const std::string& limits, const std::string& extra) {
  DiskCache* disk = DiskCache::current();
  std::string disk_key;
  if (disk != nullptr) {
    disk_key = fmt::format("{}\n{}\n{}", build_id(), extra, limits);
    disk_key.append(reinterpret_cast<const char*>(key.words.data()), key.words.size() * 8);
    if (const auto text = disk->get("schedule", disk_key))
      if (auto known = parse_schedule(*text)) return *std::move(known);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto target_of = [](const std::string& device) -> const Target* {
    const OpenDevice& open = open_device(device);
    return open.compiler != nullptr ? &open.compiler->target() : nullptr;
  };
  Schedule made = lay_out_steps(schedule_folds(graph.targets, options, target_of), target_of);
  const auto took = std::chrono::steady_clock::now() - begin;
  count_schedule();
  if (disk != nullptr && took > kWorthKeeping)
    disk->put("schedule", disk_key, print_schedule(made, graph.stand_ins));
  return made;
}

// A graph that is computed more often than this at one size, or captured, gets code of its own, which may be
// quicker than what other sizes share.
constexpr std::uint32_t kSharedUses = 16;

bool wants_own_code(const PreparedSchedule& known) {
  return known.shares_code && (observer || known.uses.fetch_add(1, std::memory_order_relaxed) >= kSharedUses);
}

std::shared_ptr<const PreparedSchedule> prepared_for(std::span<const Node> targets, const GraphKey& key) {
  const std::string device = default_device();
  const std::string extra = flags_key() + device;
  if (auto known = state().schedules.find(key, extra)) {
    if (wants_own_code(*known)) {
      const std::vector<Node> slots(known->slots.begin(), known->slots.end());
      known = prepare_schedule(Schedule(known->schedule), slots, {}, KernelCode::Own);
      state().schedules.insert(key, extra, known);
    }
    show_schedule(known->schedule, known->memory, true);
    return known;
  }
  const Normalised normal = normalise(targets, key);
  save_graph(normal.targets);
  ScheduleOptions wanted;
  wanted.default_device = device;
  wanted.unit_folds = true;
  const std::string limits = apply_limits(key, targets, wanted);
  Schedule made = scheduled(normal, key, wanted, limits, extra);
  auto prepared = prepare_schedule(std::move(made), normal.stand_ins, {},
                                   observer ? KernelCode::Own : KernelCode::Shared);
  show_schedule(prepared->schedule, prepared->memory, false);
  state().schedules.insert(key, extra, prepared);
  return prepared;
}

// Cut to a symbolic size: of a result, that is the part of its buffer that was written.
bool is_symbolic_cut(Node view) {
  return view.is(Op::Shrink) &&
         std::ranges::any_of(view.shape(), [](Node size) { return !unbound(size).is_const(); });
}

// Remembers where a value is now. A target that is a view was computed as what it is a view of; the two
// chains of movement ops run in step.
void remember(Node target, Node result) {
  while (is_movement(target.op()) && !is_symbolic_cut(result) && target.op() == result.op() &&
         target.arg_count() == result.arg_count() && target.attr() == result.attr()) {
    target = target.arg(0);
    result = result.arg(0);
  }
  if (target.is(Op::Buffer) || target.is_const() || target.rank() != result.rank()) return;
  const Node buffer = viewed(result);
  if (!buffer.is(Op::Buffer) || buffer.dtype() != target.dtype() || result != view_of(buffer, result.shape()))
    return;
  for (std::size_t i = 0; i < target.rank(); ++i)
    if (unbound(target.shape()[i]) != unbound(result.shape()[i])) return;
  set_realized(target, buffer);
  for (Node same = target; same.is(Op::Detach);) {  // is what it is cut off from, for whoever reads that
    same = same.arg(0);
    if (same.is(Op::Buffer) || same.is_const() || realized(same)) break;
    set_realized(same, buffer);
  }
}

}  // namespace

std::vector<NodeRef> realize(std::span<const Node> targets) {
  refuse_in_forked_child();
  if (targets.empty()) return {};
  const Scope scope;
  std::unique_lock lock(state().mutex);
  Stripped stripped;
  GraphKey key;
  Footprint footprint;
  while (true) {
    stripped = strip_realized(targets);
    key = key_of(stripped.targets);
    footprint = {targets, stripped.versions, key.buffers};
    if (!state().in_flight.conflicts(footprint)) break;
    state().in_flight.wait(lock);  // then some of it may be done
  }
  const auto prepared = prepared_for(stripped.targets, key);
  const std::vector<std::pair<NodeRef, std::int64_t>> bindings(key.bindings.begin(), key.bindings.end());
  std::vector<bool> had_memory;
  if (observer)
    for (const Node& buffer : key.buffers) had_memory.push_back(has_memory(buffer));
  InFlight::Run running(state().in_flight, footprint, lock);
  std::vector<NodeRef> results = run(*prepared, key.buffers, bindings);
  running.end();
  for (const auto& [version, here] : stripped.versions) set_realized(version, base_memory(here));
  for (std::size_t i = 0; i < targets.size(); ++i) remember(targets[i], results[i]);
  if (observer) {
    const Normalised normal = normalise(stripped.targets, key);
    observer({prepared,
              {key.buffers.begin(), key.buffers.end()},
              std::move(had_memory),
              bindings,
              {normal.targets.begin(), normal.targets.end()},
              results});
  }
  return results;
}

std::shared_ptr<const PreparedSchedule> prepare_only(std::span<const Node> targets) {
  refuse_in_forked_child();
  const Scope scope;
  std::lock_guard guard(state().mutex);
  const Stripped stripped = strip_realized(targets);
  return prepared_for(stripped.targets, key_of(stripped.targets));
}

NodeRef buffer_from_host(DType dtype, std::int64_t size, std::string_view device, const void* data) {
  const Scope scope;
  NodeRef buffer = new_buffer(dtype, size, open_device(device).text);
  buffer_write(buffer, data, static_cast<std::size_t>(size) * static_cast<std::size_t>(dtype.bytes()));
  if (host_data != nullptr) host_data->push_back(buffer);
  return buffer;
}

void buffer_write(Node buffer, const void* data, std::size_t bytes, std::size_t offset) {
  Place place = place_of(buffer);
  check_internal(offset + bytes <= place.span.bytes, "engine", "a write goes beyond its buffer");
  if (bytes == 0) return;
  if (bytes == place.span.bytes) set_faults(buffer, nullptr);
  place.span.offset = offset;
  place.span.bytes = bytes;
  // Straight into memory that kernels work on; a file's wants its device to know.
  if (place.span.memory.host != nullptr && place.device->compiler != nullptr) {
    executor().wait_unused(*place.device, place.span);
    std::memcpy(static_cast<std::byte*>(place.span.memory.host) + offset, data, bytes);
    return;
  }
  // The copy only reads the host's side, though a Span has no const.
  const Place host{nullptr, {{0, bytes, const_cast<void*>(data)}, 0, bytes}};
  executor().wait(executor().copy(place, host));  // the caller may change the memory when this returns
}

static void check_host_reads() {
  ++host_reads_done;
  if (host_reads_forbidden)
    throw JitError("jit", "the function reads a tensor's data while it is captured")
        .help("return the tensor and read it after the call");
}

void* host_address(Node buffer) {
  check_host_reads();
  Place place = place_of(buffer);
  if (place.span.memory.host == nullptr) return nullptr;
  executor().wait_written(*place.device, place.span);
  check_faults(buffer);
  return static_cast<std::byte*>(place.span.memory.host) + place.span.offset;
}

void buffer_to_host(Node buffer, void* data, std::size_t bytes) {
  check_host_reads();
  Place place = place_of(buffer);
  check_internal(bytes <= place.span.bytes, "engine", "a buffer has fewer bytes than requested");
  if (bytes == 0) return;
  place.span.bytes = bytes;
  if (place.span.memory.host != nullptr) {
    executor().wait_written(*place.device, place.span);
    check_faults(buffer);
    std::memcpy(data, place.span.memory.host, bytes);
    return;
  }
  const Place host{nullptr, {{0, bytes, data}, 0, bytes}};
  executor().wait(executor().copy(host, place));
  check_faults(buffer);
}

NodeRef buffer_import(DType dtype, std::int64_t size, void* data, void (*release)(void*), void* context) {
  const Scope scope;
  NodeRef buffer = new_buffer(dtype, size, "CPU");
  const auto bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(dtype.bytes());
  import_memory(buffer, data, bytes, [release, context] {
    if (release != nullptr) release(context);
  });
  if (host_data != nullptr) host_data->push_back(buffer);
  return buffer;
}

void synchronize() {
  executor().synchronize();
  executor().throw_faults();
}

std::string default_device() {
  {
    std::lock_guard guard(state().device_mutex);
    if (!state().device.empty()) return state().device;
  }
  const std::string& flag = flag_text(Flag::Device);
  return flag.empty() ? "CPU" : parse_device_name(flag).str();
}

void set_default_device(std::string_view device) {
  std::string name = device.empty() ? "" : parse_device_name(device).str();
  std::lock_guard guard(state().device_mutex);
  state().device = std::move(name);
}

void set_observer(Observer next) { observer = std::move(next); }
std::uint64_t host_reads() { return host_reads_done; }
std::vector<NodeRef>* watch_host_data(std::vector<NodeRef>* given) { return std::exchange(host_data, given); }
bool forbid_host_reads(bool forbid) { return std::exchange(host_reads_forbidden, forbid); }

void drop_caches() {
  std::lock_guard guard(state().mutex);
  state().schedules.clear();
  drop_kernels();
}

void count_schedule() {
  std::lock_guard guard(state().counters_mutex);
  ++state().counters.schedules;
}
void count_kernel(double flops, double bytes) {
  std::lock_guard guard(state().counters_mutex);
  state().counters.flops += flops;
  state().counters.bytes += bytes;
}
void count_seconds(double seconds) {
  std::lock_guard guard(state().counters_mutex);
  state().counters.seconds += seconds;
}

Counters counters() {
  std::unique_lock guard(state().counters_mutex);
  Counters result = state().counters;
  guard.unlock();
  const ExecutorCounters work = executor().counters();
  result.kernels = work.kernels;
  result.copies = work.copies;
  result.bytes_copied = work.bytes_copied;
  result.compiles = compile_count();
  const ProofCounts proofs = proof_counts();
  result.proved = proofs.by_interval + proofs.by_solver;
  result.guarded = proofs.guarded;
  for (OpenDevice* device : open_devices()) {
    result.memory_used += device->pool.used();
    result.memory_peak += device->pool.peak();
  }
  return result;
}

void reset_counters() {
  {
    std::lock_guard guard(state().counters_mutex);
    state().counters = {};
  }
  executor().reset_counters();
  reset_compile_count();
  for (OpenDevice* device : open_devices()) device->pool.reset_peak();
}

}  // namespace engine
}  // namespace lathe
