// Convolutions of small images with a wide border (gradients with respect to the input) multiply many zeros.
// skip_steps.h skips whole rows of them. If a row of the image fits the registers, the window's steps along
// it are unrolled, and the steps in the border are skipped too (expand.cpp): a sixth of the work for the
// gradient of a 5x5 convolution on 24x24, a quarter for a 3x3 on 8x8.
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
