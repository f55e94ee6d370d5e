// The quickest a core can read memory in its order, with loads as wide as the machine has them. What caches
// and memory are measured with.
#pragma once

#include <cstddef>

namespace lathe {

// Reads whole blocks of 512 bytes, from 64-byte lines, so many times; returns a number made of all of it, so
// that the reading is not dropped.
std::size_t read_memory(const void* from, std::size_t bytes, int times);

}  // namespace lathe
