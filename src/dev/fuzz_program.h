// A random tensor program: the same for the same seed, on any device. Leaves hold small whole numbers, so
// that most operations are exact and what is decided by a comparison is decided alike everywhere.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/tensor.h"

namespace lathe::dev {

struct FuzzProgram {
  Tensor result;
  bool exact = true;  // else it may differ by roundings
  bool symbolic = false;
  std::string text;
};

FuzzProgram make_fuzz_program(std::uint64_t seed, const std::string& device);

}  // namespace lathe::dev
