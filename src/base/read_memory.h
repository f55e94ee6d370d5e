// The fastest sequential read of memory by one core, with the widest loads of the machine. Caches and memory
// are measured with it.
#pragma once

#include <cstddef>

namespace lathe {

// Reads whole blocks of 512 bytes, from 64-byte lines, so many times; returns a number made of all of it, so
// that the reading is not dropped.
std::size_t read_memory(const void* from, std::size_t bytes, int times);

}  // namespace lathe
