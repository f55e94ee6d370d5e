// Tiles for sums of products: matrix products, convolutions and their gradients. All have the same inner
// loop: some rows times some vectors of accumulators, fed by one vector factor and one factor that is
// repeated in all lanes. What differs is along which ranges, and whether the vector factor must first be
// copied to a panel so that its lanes lie side by side. Every choice is priced by a small model, and the
// cheapest wins.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/kernel_facts.h"
#include "target/target.h"

namespace lathe {

enum class Panel : std::uint8_t {
  None,   // the vector factor is read where it is
  Whole,  // copied once for each part of the launch
  Block,  // copied for each block of lanes, which stand outermost
  Steps,  // copied for each few steps of the first reduce range, which stands outermost
};

struct ProductTile {
  std::size_t lane_range = 0;
  std::int64_t width = 0;                                  // of the lane range, in one step
  std::vector<std::pair<std::size_t, std::int64_t>> rows;  // ranges and how much of each
  bool lanes_reduce = false;  // the lanes run along a reduce range, combined at the end
  int factor = 0;             // the vector factor
  Panel panel = Panel::None;
  std::int64_t steps = 1;  // for Panel::Steps
  double cost = 0;         // machine steps per full vector of products
};

// The cheapest tile, or nothing where the kernel's main reduce is no sum of products that vectors help.
std::optional<ProductTile> choose_product_tile(const KernelFacts& facts, const Target& target);

}  // namespace lathe
