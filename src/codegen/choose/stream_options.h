// Streaming kernels read something larger than the caches once: elementwise chains, sums along rows, products
// of a matrix and a vector. Nothing is reused, so speed depends on keeping memory busy.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/choose/kernel_facts.h"
#include "target/target.h"

namespace lathe {

struct StreamPlan {
  std::size_t lane = 0;       // the range that is contiguous in memory
  std::int64_t width = 1;     // how much of it becomes lanes
  std::int64_t turn = 1;      // vectors of one stream that are read before the next stream's
  std::size_t rows = 0;       // the range that is divided into threads and streams; may equal `lane`
  std::int64_t streams = 1;   // pieces of memory that one thread reads in turn
  std::int64_t piece = 1;     // steps of `rows` in one piece
  std::int64_t shortest = 1;  // the same where a thread has no more than one piece of each stream
  std::int64_t ahead = 0;     // prefetch distance in steps, or 0
  // If whole rows are added: the reduce range outside of the lanes' loop, and how many steps of the lanes'
  // loop have their sums in a cache. Else 0.
  std::size_t added = 0;
  std::int64_t strip = 0;
};

// The plan of a streaming kernel, or nothing if the kernel is not one.
std::optional<StreamPlan> choose_streams(const KernelFacts& facts, const Target& target);

}  // namespace lathe
