// A schedule with everything needed to run it repeatedly: kernels, the memory plan, and the source of every
// buffer of every step. It refers to no buffer of the user: these are passed to each run, by slot. realize()
// caches prepared schedules by graph; a capture keeps the ones it ran and runs them again without a graph.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/joined_launches.h"
#include "engine/kernels.h"
#include "engine/memory_plan.h"
#include "ir/node.h"
#include "schedule/schedule.h"

namespace lathe::engine {

// Where the bytes of a step's buffer come from in one run.
struct BufferSource {
  enum class Kind : std::uint8_t { Slot, Fresh, Planned } kind = Kind::Slot;
  std::uint32_t index = 0;  // of the slots, of the fresh buffers, of the memory plan's buffers
};

struct PreparedStep {
  OpenDevice* device = nullptr;
  ReadyKernel kernel;                 // null for a copy
  std::vector<BufferSource> buffers;  // by param slot; of a copy: {to, from}
  Grid grid;
  bool symbolic = false;  // the grid depends on variables, so it is worked out for each run
  std::vector<std::uint32_t> written_slots;
};

struct PreparedSchedule {
  Schedule schedule;  // over stand-ins
  MemoryPlan memory;
  std::vector<NodeRef> slots;              // stand-ins of the buffers the graph came with
  std::vector<NodeRef> fresh;              // stand-ins of buffers that every run makes again: the results
  std::vector<std::string> fresh_origins;  // the tensor ops each of them is the result of
  std::vector<PreparedStep> steps;
  std::unique_ptr<KnownLaunches> launches = std::make_unique<KnownLaunches>();  // of the runs so far
  bool shares_code = false;                     // some kernel runs code made for several sizes
  mutable std::atomic<std::uint32_t> uses = 0;  // of one that does

  // Bytes a run takes on this device beyond what it finds: arena and results, as the pool counts them.
  std::size_t bytes_needed(const std::string& device) const;
};

// Plans memory and makes the kernels of a schedule whose inputs are these stand-ins. `saved` are kernels that
// saved_kernel gave, by step (empty for copies), or none. `code` says whether kernels may share machine code
// with those of other sizes, which saves compiling it, or have their own, which may be quicker.
enum class KernelCode : std::uint8_t { Shared, Own };
std::shared_ptr<const PreparedSchedule> prepare_schedule(Schedule schedule, std::span<const Node> slots,
                                                         std::span<const std::string_view> saved = {},
                                                         KernelCode code = KernelCode::Own);

// Runs it over these buffers, by slot. Returns, for each target, what can be read afterwards. Throws
// OutOfMemory with the plan before anything is allocated or submitted. A request to stop is met only as long
// as no memory was updated: after that, whoever asks for the values again would update it twice.
std::vector<NodeRef> run(const PreparedSchedule& prepared, std::span<const Node> slots, Bindings bindings);

}  // namespace lathe::engine
