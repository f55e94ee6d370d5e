// Convolutions of small images with a wide border (gradients with respect to what went in): a share of all
// products is with zeros. skip_steps.h leaves out whole rows of them. Where a row of the image fits the
// registers, the steps of the window along it are copies with constants, and those that lie in the border are
// left out too (expand.cpp): of the gradient of a 5x5 convolution on 24x24 that is a sixth, of a 3x3 on 8x8 a
// quarter.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/choose/kernel_facts.h"
#include "codegen/choose/product_tile.h"
#include "target/target.h"

namespace lathe {

struct BorderSteps {
  std::size_t row = 0;     // the output range along the image's row, whole in registers
  std::size_t window = 0;  // the reduce range along the window's row, whole
  std::int64_t width = 0;  // of the lane range, in one step
};

// What to take instead of the rows of the tile, where that pays.
std::optional<BorderSteps> choose_border_steps(const KernelFacts& facts, const Target& target,
                                               const ProductTile& tile);

}  // namespace lathe
