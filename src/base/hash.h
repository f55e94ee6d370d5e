// Hashing that gives the same numbers on every run and machine, because hashes end up in cache keys and must
// never make output depend on where it ran. Not cryptographic: a cache that trusts a hash compares the key as
// well.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace lathe {

namespace hash_detail {

// Odd constants with about half their bits set, taken from the fraction digits of sqrt(2), sqrt(3) and
// sqrt(5).
inline constexpr std::uint64_t kA = 0x6a09e667f3bcc909ull, kB = 0xbb67ae8584caa73bull,
                               kC = 0x3c6ef372fe94f82bull;

// Both halves of the 128-bit product, folded: every input bit reaches every output bit.
constexpr std::uint64_t fold(std::uint64_t x, std::uint64_t y) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(x) * y;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t load(const unsigned char* p, std::size_t bytes) {
  std::uint64_t word = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&word, p, bytes);
  } else {
    for (std::size_t i = 0; i < bytes; i++) word |= static_cast<std::uint64_t>(p[i]) << (8 * i);
  }
  return word;
}

}  // namespace hash_detail

// Spreads one number over all 64 bits.
constexpr std::uint64_t hash_mix(std::uint64_t x) {
  return hash_detail::fold(x ^ hash_detail::kA, hash_detail::kB);
}

// Adds a number to a running hash; order matters.
constexpr std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t x) {
  return hash_detail::fold(seed ^ hash_detail::kB, x ^ hash_detail::kC) + seed;
}

// Hashes several numbers in order.
template <std::integral... T>
constexpr std::uint64_t hash_all(T... values) {
  std::uint64_t seed = hash_detail::kA;
  ((seed = hash_combine(seed, static_cast<std::uint64_t>(values))), ...);
  return hash_mix(seed);
}

// Hashes bytes; equal bytes give equal hashes whatever their alignment.
inline std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0) {
  using namespace hash_detail;
  auto p = static_cast<const unsigned char*>(data);
  std::uint64_t h = hash_combine(seed, bytes);
  std::size_t left = bytes;
  for (; left > 16; left -= 16, p += 16) h = fold(load(p, 8) ^ kB, load(p + 8, 8) ^ h);
  const std::uint64_t low = load(p, left < 8 ? left : 8), high = left > 8 ? load(p + 8, left - 8) : 0;
  return fold(fold(low ^ kC, high ^ h), bytes ^ kA);
}

inline std::uint64_t hash_string(std::string_view text, std::uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}

// Hashes a list of numbers, each widened to 64 bits so that the element type does not matter.
template <class T>
  requires std::integral<T> || std::is_enum_v<T>
std::uint64_t hash_span(std::span<const T> values, std::uint64_t seed = 0) {
  std::uint64_t h = hash_combine(seed, values.size());
  for (T value : values) h = hash_combine(h, static_cast<std::uint64_t>(value));
  return hash_mix(h);
}

}  // namespace lathe
