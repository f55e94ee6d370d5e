#include "base/text.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/terminal.h"

namespace lathe {
namespace {

TEST(Text, EditDistanceCountsSingleChanges) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("debug", "debig"), 1);
  EXPECT_EQ(edit_distance("verify", "very"), 2);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Text, NearestWordGivesUpWhenNothingIsNear) {
  const std::vector<std::string_view> words = {"matmul", "maximum", "reshape"};
  EXPECT_EQ(nearest_word("matmull", words), "matmul");
  EXPECT_EQ(nearest_word("rehsape", words), "reshape");
  EXPECT_EQ(nearest_word("zzzzzz", words), std::nullopt);
}

TEST(Text, SizesAndTimesReadWell) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(3ull << 30), "3.0 GiB");
  EXPECT_EQ(human_seconds(12.3e-6), "12.3 us");
  EXPECT_EQ(human_seconds(0.25), "250.0 ms");
  EXPECT_EQ(human_seconds(2.5), "2.5 s");
  EXPECT_EQ(human_seconds(75), "1m15s");
  EXPECT_EQ(human_seconds(3720), "1h02m");
}

TEST(Text, ColoursAreLeftOutWhenNotWanted) {
  EXPECT_EQ(coloured(Colour::Red, "x", false), "x");
  EXPECT_EQ(coloured(Colour::Red, "x", true), "\033[31mx\033[0m");
}

}  // namespace
}  // namespace lathe
