// The unit in which caches and memory exchange data, the same on every CPU and GPU that Lathe compiles for.
#pragma once

#include <cstdint>

namespace lathe {

inline constexpr std::int64_t kLineBytes = 64;

}  // namespace lathe
