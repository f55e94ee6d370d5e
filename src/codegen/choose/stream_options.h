// Kernels that walk once over something larger than the caches: elementwise chains, sums along rows, products
// of a matrix and a vector. Nothing is used twice, so what counts is that memory never waits.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/choose/kernel_facts.h"
#include "target/target.h"

namespace lathe {

struct StreamPlan {
  std::size_t lane = 0;      // the range that runs along memory
  std::int64_t width = 1;    // how much of it becomes lanes
  std::int64_t turn = 1;     // how many of those one after the other before the next piece has its turn
  std::size_t rows = 0;      // the range that is cut into threads and streams; may be the lanes' own
  std::int64_t streams = 1;  // pieces that one thread walks over at the same time
  std::int64_t piece = 1;    // steps of `rows` in one of them
  std::int64_t ahead = 0;    // steps of the walks by which what they read is fetched early, or 0
  // Where whole rows are added: the reduce range that stands outside the lanes' loop, and how many steps of
  // that have their sums in a cache. Else 0.
  std::size_t added = 0;
  std::int64_t strip = 0;
};

// The plan for such a kernel, or nothing where it is another kind.
std::optional<StreamPlan> choose_streams(const KernelFacts& facts, const Target& target);

}  // namespace lathe
