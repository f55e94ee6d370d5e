// Tiles for sums of products: matrix products, convolutions and their gradients. All have the same inner
// loop: some rows times some vectors of accumulators, fed by one vector factor and one factor that is
// broadcast to all lanes. Kernels differ in the ranges of the tile, in whether the factors are copied to
// panels first (which makes lanes contiguous, stores the border as zeros and keeps the data in a cache), and
// in the block sizes, which keep each panel in its cache. Each choice is priced by a small model, and the
// cheapest is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/choose/kernel_facts.h"
#include "target/target.h"

namespace lathe {

struct ProductTile {
  std::size_t lane_range = 0;
  std::int64_t width = 0;                                  // of the lane range, in one step
  std::vector<std::pair<std::size_t, std::int64_t>> rows;  // ranges and how much of each
  bool lanes_reduce = false;  // the lanes run along a reduce range, combined at the end
  int factor = 0;             // the vector factor
  double cost = 0;            // machine steps per full vector of products

  // With lanes along a reduce: factors that are copied first, `reduce_steps` steps of the lanes at a time.
  bool stage[2] = {false, false};

  // The vector factor has a panel, copied for each block of lanes and of the first reduce range.
  bool panel = false;
  std::int64_t lane_steps = 0;    // steps of the lane range in a block; 1: a strip is copied when it is used
  std::int64_t reduce_steps = 0;  // steps of the first reduce range in a block

  // The vector factor comes from memory, a strip of lanes at a time: the next one is fetched meanwhile.
  bool from_memory = false;

  // The other factor has a panel too, in the order of its source.
  bool other_panel = false;
  bool other_first = false;          // it is copied before the blocks of lanes, not again for each of them
  bool fragments = false;            // both panels hold fragments of a matrix unit
  std::vector<std::size_t> outside;  // row ranges that are outside that panel, whole
  std::size_t tiled = 0;             // one more of them is outside in blocks of `tile` steps; 0: none
  std::int64_t tile = 0;
};

// The cheapest tile, or nothing where the kernel's main reduce is no sum of products that vectors help.
std::optional<ProductTile> choose_product_tile(const KernelFacts& facts, const Target& target);

// Blocks for a unit of fragments whose columns run along `lane` and whose rows along `row`: the columns of a
// block stay in L2, one step of rows in L1. `left` are the steps that remain of each
// range, a step `taken` elements.
ProductTile fragment_tile(const KernelFacts& facts, const Target& target, std::size_t lane, std::size_t row,
                          const std::vector<std::int64_t>& left, const std::vector<std::int64_t>& taken);

}  // namespace lathe
