// Computes a tensor graph: schedule, codegen, render, compile, plan memory and run, with the caches in
// between. The only folder that uses all of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/node.h"

namespace lathe::engine {

// Computes the targets and returns, for each, a node that needs no more work: an Op::Buffer, or movement ops
// over one, or a constant. After(buffer, Store) targets are stored in place and give the view of the buffer.
// Values that were computed are remembered on their nodes (set_realized), so that other graphs that hold them
// find the buffer. Safe from any thread: one computation is prepared at a time, and those that share no value
// that is computed and no memory that is written run at once.
std::vector<NodeRef> realize(std::span<const Node> targets);

// Schedules and compiles what realize would run, and runs nothing: the next realize of the same graph only
// launches.
struct PreparedSchedule;
std::shared_ptr<const PreparedSchedule> prepare_only(std::span<const Node> targets);

// A buffer filled from host memory (copied), and host memory filled from a buffer (waits for pending work).
NodeRef buffer_from_host(DType dtype, std::int64_t size, std::string_view device, const void* data);
void buffer_to_host(Node buffer, void* data, std::size_t bytes);
// Where a buffer's bytes are once pending work has written them; null where the CPU cannot reach them.
void* host_address(Node buffer);
// Fills a buffer that exists, or the part of it that begins at this byte, from host memory.
void buffer_write(Node buffer, const void* data, std::size_t bytes, std::size_t offset = 0);
// A buffer over host memory that is not copied; `release` runs when the buffer dies.
NodeRef buffer_import(DType dtype, std::int64_t size, void* data, void (*release)(void*), void* context);

// Waits until everything submitted on all devices is done.
void synchronize();

// The device of values made of constants alone: the one set here, else LATHE_DEVICE, else CPU.
std::string default_device();
void set_default_device(std::string_view device);  // "" forgets it

// Counters since the last reset, for tests and users.
struct Counters {
  std::uint64_t kernels = 0;       // launched
  std::uint64_t copies = 0;        // between devices
  double flops = 0, bytes = 0;     // counted on the kernels launched
  std::uint64_t bytes_copied = 0;  // between devices
  std::uint64_t schedules = 0;     // graphs scheduled (cache misses)
  std::uint64_t compiles = 0;      // kernels compiled (cache misses)
  std::uint64_t proved = 0;        // accesses of those, shown to stay inside their memory
  std::uint64_t guarded = 0;       // and those checked when the kernel runs
  std::size_t memory_used = 0;     // bytes held by live buffers now
  std::size_t memory_peak = 0;
  double seconds = 0;  // time in kernels, where it was measured
};
Counters counters();
void reset_counters();

// What each kernel cost while profiling was on, most expensive first.
struct KernelProfile {
  std::string name, device, options, origin;
  std::uint64_t runs = 0;
  double ns = 0, flops = 0, bytes = 0;  // sums over the runs
  double roof = 0;                      // best share of the machine's roof, 0 where it is not known
};
void set_profiling(bool on);  // turning it on forgets the last profile
std::vector<KernelProfile> profile();

// Sees every computation that realize runs, as it could be run again: for captures. The slots are the buffers
// it read and wrote.
struct Call {
  std::shared_ptr<const PreparedSchedule> prepared;
  std::vector<NodeRef> slots;
  std::vector<bool> had_memory;  // of each slot, before the run: one that had none was never written to
  std::vector<std::pair<NodeRef, std::int64_t>> bindings;
  std::vector<NodeRef> targets;  // what was scheduled, over stand-ins
  std::vector<NodeRef> results;
};
using Observer = std::function<void(const Call&)>;
// Observes the calls of this thread until set again; an empty one stops it.
void set_observer(Observer observer);
// While on, buffer_to_host on this thread throws JitError: a capture must not depend on what it reads. Gives
// the setting before.
bool forbid_host_reads(bool forbid);

// Buffers that get bytes from the host on this thread (buffer_from_host, buffer_import) are written down
// there; null stops it. Gives the one before.
std::vector<NodeRef>* watch_host_data(std::vector<NodeRef>* given);

// Forgets every schedule and kernel of this process, as if it had just begun. Nothing prepared may be used
// again.
void drop_caches();

}  // namespace lathe::engine
