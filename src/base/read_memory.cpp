#include "base/read_memory.h"

#include <cstdint>
#include <cstring>

#include "base/cpus.h"

namespace lathe {
namespace {

constexpr std::size_t kBlock = 512;  // eight of the widest loads, each onto a value of its own

std::size_t read_words(const char* from, std::size_t bytes, int times) {
  std::size_t seen[8] = {};
  for (int t = 0; t < times; ++t)
    for (std::size_t at = 0; at + 64 <= bytes; at += 64)
      for (std::size_t i = 0; i < 8; ++i) {
        std::size_t word = 0;
        std::memcpy(&word, from + at + 8 * i, sizeof word);
        seen[i] |= word;
      }
  return seen[0] | seen[1] | seen[2] | seen[3] | seen[4] | seen[5] | seen[6] | seen[7];
}

#if defined(__x86_64__)
using Half = std::int64_t __attribute__((vector_size(32)));
using Whole = std::int64_t __attribute__((vector_size(64)));

__attribute__((target("avx2"))) std::size_t read_avx2(const char* from, std::size_t bytes, int times) {
  Half seen[16] = {};
  for (int t = 0; t < times; ++t)
    for (std::size_t at = 0; at + kBlock <= bytes; at += kBlock)
#pragma GCC unroll 16
      for (std::size_t i = 0; i < 16; ++i)
        seen[i] |= *reinterpret_cast<const Half*>(from + at + sizeof(Half) * i);
  for (std::size_t i = 1; i < 16; ++i) seen[0] |= seen[i];
  return static_cast<std::size_t>(seen[0][0]);
}

__attribute__((target("avx512f"))) std::size_t read_avx512(const char* from, std::size_t bytes, int times) {
  Whole seen[8] = {};
  for (int t = 0; t < times; ++t)
    for (std::size_t at = 0; at + kBlock <= bytes; at += kBlock)
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i)
        seen[i] |= *reinterpret_cast<const Whole*>(from + at + sizeof(Whole) * i);
  for (std::size_t i = 1; i < 8; ++i) seen[0] |= seen[i];
  return static_cast<std::size_t>(seen[0][0]);
}
#endif

using Read = std::size_t (*)(const char* from, std::size_t bytes, int times);

Read widest_read() {
#if defined(__x86_64__)
  const int limit = cpu_level_limit() == 0 ? 4 : cpu_level_limit();
  if (limit >= 4 && __builtin_cpu_supports("avx512f")) return read_avx512;
  if (limit >= 3 && __builtin_cpu_supports("avx2")) return read_avx2;
#endif
  return read_words;
}

}  // namespace

std::size_t read_memory(const void* from, std::size_t bytes, int times) {
  static const Read read = widest_read();
  return read(static_cast<const char*>(from), bytes, times);
}

}  // namespace lathe
