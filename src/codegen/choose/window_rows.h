// Sums over windows of one channel (depthwise convolutions, pooling): neighbouring rows of outputs read the
// same rows of the image. With several output rows in registers and the window's steps between rows unrolled,
// each image row is read once for all of them, not once per step of the window.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/choose/kernel_facts.h"
#include "target/target.h"

namespace lathe {

struct WindowRows {
  std::size_t row = 0, window = 0;  // an output range, and the reduce range that moves along with it
  std::int64_t rows = 0;            // of them in registers
  std::size_t lane = 0;
  std::int64_t width = 0;
  std::optional<std::size_t> across;  // a window's range along the lanes, without a loop as well
};

std::optional<WindowRows> choose_window_rows(const KernelFacts& facts, const Target& target);

}  // namespace lathe
