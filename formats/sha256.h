// The SHA-256 digest, for files that must be the ones that were meant.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace lathe::formats {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  std::string hex();  // the digest; nothing may be added after it

 private:
  void block(const std::byte* at);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};
  std::size_t held_ = 0;
  std::uint64_t bytes_ = 0;
};

std::string sha256_of(std::string_view text);
std::string sha256_of_file(const std::filesystem::path& file, const char* op);

}  // namespace lathe::formats
