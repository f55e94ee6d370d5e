#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace lathe {
namespace {

// Cache keys on disk depend on these numbers: a change here makes every cache cold.
TEST(Hash, IsTheSameOnEveryRunAndMachine) {
  EXPECT_EQ(hash_mix(0), 0xf90109d2335f6b4full);
  EXPECT_EQ(hash_all(1, 2, 3), 0x3e949b66c60a557eull);
  EXPECT_EQ(hash_string(""), 0x6c93d480520c66faull);
  EXPECT_EQ(hash_string("lathe"), 0xe709dc22ef137b3cull);
  EXPECT_EQ(hash_string("a string of more than thirty-two bytes"), 0x55b2ab80170b5646ull);
}

TEST(Hash, DependsOnOrderLengthAndSeed) {
  EXPECT_NE(hash_all(1, 2), hash_all(2, 1));
  EXPECT_NE(hash_all(0), hash_all(0, 0));
  EXPECT_NE(hash_string("ab"), hash_string("ba"));
  EXPECT_NE(hash_string(std::string(3, '\0')), hash_string(std::string(4, '\0')));
  EXPECT_NE(hash_string("x", 1), hash_string("x", 2));
}

TEST(Hash, DoesNotDependOnAlignmentOrElementType) {
  const std::string text = "0123456789abcdef0123456789abcdef!";
  for (std::size_t shift = 0; shift < 8; shift++) {
    const std::string moved = std::string(shift, '_') + text;
    EXPECT_EQ(hash_string(std::string_view(moved).substr(shift)), hash_string(text));
  }
  const std::vector<int> narrow = {-1, 5};
  const std::vector<long> wide = {-1, 5};
  EXPECT_EQ(hash_span<int>(narrow), hash_span<long>(wide));
}

TEST(Hash, EveryInputBitFlipsAboutHalfTheOutputBits) {
  std::string bytes = "thirty-seven bytes of ordinary text!!";
  const std::uint64_t before = hash_string(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit++) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const int flipped = std::popcount(before ^ hash_string(bytes));
    EXPECT_GT(flipped, 10) << "bit " << bit;
    EXPECT_LT(flipped, 54) << "bit " << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(Hash, SmallNumbersSpreadOverTheLowBits) {
  // A table of 2^12 slots filled with 2^12 consecutive keys: random placing leaves about 37% of them empty.
  std::set<std::uint64_t> single, pair;
  for (std::uint64_t i = 0; i < 4096; i++) {
    single.insert(hash_mix(i) & 4095);
    pair.insert(hash_all(i / 64, i % 64) & 4095);
  }
  EXPECT_GT(single.size(), 2400u);
  EXPECT_GT(pair.size(), 2400u);
}

}  // namespace
}  // namespace lathe
