// A damaged file: one to four changes of the kinds that readers have to stand.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <string>

namespace lathe::test {

// Numbers that stand at the borders of what readers check.
inline constexpr std::uint64_t kBorderNumbers[] = {
    0, 1, 7, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0xffffffff, std::uint64_t{1} << 62, ~std::uint64_t{0}};

inline std::string little_endian(std::uint64_t number, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(number >> 8 * i & 0xFF);
  return out;
}

// Seven bits in each byte, as protobuf has them.
inline std::string varint_bytes(std::uint64_t number) {
  std::string out;
  for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
  return out += static_cast<char>(number);
}

inline std::string mutated(std::string bytes, std::mt19937_64& random) {
  const std::size_t changes = 1 + random() % 4;
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 9) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.erase(at, 1 + random() % 16); break;
      case 4: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 64)); break;
      case 5: {
        const std::string number = little_endian(kBorderNumbers[random() % std::size(kBorderNumbers)],
                                                 std::size_t{1} << random() % 4);
        bytes.replace(at, number.size(), number);
        break;
      }
      case 6: {  // a digit of a text
        const std::size_t digit = bytes.find_first_of("0123456789", at);
        if (digit != std::string::npos) bytes[digit] = static_cast<char>('0' + random() % 10);
        break;
      }
      case 7: {  // more digits
        const std::size_t digit = bytes.find_first_of("0123456789", at);
        if (digit != std::string::npos) bytes.insert(digit, std::string(1 + random() % 20, '9'));
        break;
      }
      default: bytes.insert(at, varint_bytes(std::uint64_t{1} << random() % 64)); break;
    }
  }
  return bytes;
}

}  // namespace lathe::test
