// The memory plan of a schedule's intermediate buffers: one arena per device, with offsets chosen from
// lifetimes, so that buffers that are never alive at the same time share bytes. It is made before anything is
// allocated, so a peak that does not fit is an error up front. A plain value that can be printed and that an
// independent checker verifies (aliasing.h).
//
//   step        0    1    2    3
//   a (64 KiB)  w----r                 offset 0
//   b (64 KiB)       w----r            offset 64 KiB
//   c (64 KiB)            w----r       offset 0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/node.h"
#include "schedule/schedule.h"

namespace lathe::engine {

struct PlannedBuffer {
  NodeRef buffer;
  std::string device;
  std::size_t bytes = 0;    // as the kernels see it
  std::size_t offset = 0;   // in the arena of its device; always a multiple of kArenaAlign
  int first = 0, last = 0;  // steps that use it, both inclusive
  int in_place_of = -1;     // place in `buffers` of one whose bytes it takes over in step `first`
};

struct Arena {
  std::string device;
  std::size_t bytes = 0;
};

// What kernels work in beside their buffers, such as the panels of products: kept by the device, and the same
// for all of them, so that the largest counts.
struct PlannedScratch {
  std::string device;
  std::size_t bytes = 0;
  int step = 0;  // the first that needs as much
};

struct MemoryPlan {
  std::vector<PlannedBuffer> buffers;  // intermediates, in order of first use
  std::vector<Arena> arenas;           // by first use
  std::vector<PlannedScratch> scratch;
  std::vector<NodeRef> outside;  // buffers of steps that keep memory of their own: inputs and results
  std::size_t arena_bytes(const std::string& device) const;
  std::size_t scratch_bytes(const std::string& device) const;
  std::size_t unshared_bytes() const;  // what the intermediates would take without sharing
};

inline constexpr std::size_t kArenaAlign = 256;

// Plans a schedule. `kept` are the buffers that are read after the last step or belong to the user: they are
// never in an arena. In-place reuse: an elementwise kernel may write over an input that dies with it.
// `scratch` is what each step's kernel needs with its options, by step, where that is known. Without sharing
// every intermediate has bytes of its own.
enum class Sharing : std::uint8_t { No, Yes };
MemoryPlan plan_memory(const Schedule& schedule, std::span<const Node> kept,
                       std::span<const std::size_t> scratch = {}, Sharing sharing = Sharing::Yes);

// One line per arena and per buffer in it.
std::string to_string(const MemoryPlan& plan, std::size_t most_lines = SIZE_MAX);

// Whether the kernel may write its output `output` over its input `input` (param slots): it stores to it
// once, and each element of the input is read only by the iteration that writes the same element.
bool can_run_in_place(Node kernel, std::int64_t output, std::int64_t input);

}  // namespace lathe::engine
