// Divides a product among threads: chooses the ranges to divide and the number of parts.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/choose/kernel_facts.h"
#include "codegen/choose/product_tile.h"
#include "target/target.h"

namespace lathe {

// How long a range takes, in steps, where every core takes one part after the other. Uneven parts cost a
// little more, for their gates.
double parts_steps(std::int64_t extent, std::int64_t parts, std::int64_t cores);

// Which range threads divide, and into how many parts; 1 part where dividing gains nothing. `left` are the
// steps that remain of each range (0 where it cannot be divided).
struct ThreadParts {
  std::size_t range = 0;
  std::int64_t parts = 1;
};
ThreadParts choose_product_threads(const KernelFacts& facts, const Target& target, const ProductTile& tile,
                                   const std::vector<std::int64_t>& left, std::int64_t most_parts);

}  // namespace lathe
