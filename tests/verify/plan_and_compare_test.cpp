// The aliasing checker and the comparison with REF, each with planted faults.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "ir/build.h"
#include "verify/aliasing.h"
#include "verify/compare.h"

namespace lathe::verify {
namespace {

TEST(Aliasing, BuffersMayShareBytesOneAfterTheOther) {
  std::vector<PlacedBuffer> plan = {
      {.id = 1, .offset = 0, .bytes = 64, .first = 0, .last = 1},
      {.id = 2, .offset = 64, .bytes = 64, .first = 1, .last = 2},
      {.id = 3, .offset = 0, .bytes = 64, .first = 2, .last = 3},
  };
  EXPECT_TRUE(check_placement(plan).empty());
}

TEST(Aliasing, AnOverlapWhileBothAreAliveIsNamed) {
  std::vector<PlacedBuffer> plan = {
      {.id = 1, .offset = 0, .bytes = 64, .first = 0, .last = 2},
      {.id = 2, .offset = 63, .bytes = 64, .first = 2, .last = 3},
  };
  std::vector<std::string> faults = check_placement(plan);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0],
            "buffer 2 at [63, 127) in steps 2 to 3 shares bytes with buffer 1 at [0, 64) in steps 0 to 2");
  plan[1].arena = 1;
  EXPECT_TRUE(check_placement(plan).empty());
}

TEST(Aliasing, InPlaceIsAllowedOnlyInTheVeryStepAndPlace) {
  std::vector<PlacedBuffer> plan = {
      {.id = 1, .offset = 0, .bytes = 64, .first = 0, .last = 2},
      {.id = 2, .offset = 0, .bytes = 64, .first = 2, .last = 3, .in_place_of = 0},
  };
  EXPECT_TRUE(check_placement(plan).empty());
  plan[0].last = 3;
  EXPECT_EQ(check_placement(plan).size(), 1u);
  plan[0].last = 2;
  plan[1].bytes = 65;
  EXPECT_EQ(check_placement(plan).size(), 1u);
}

TEST(Aliasing, EntriesThatMakeNoSenseAreNamed) {
  std::vector<PlacedBuffer> plan = {{.id = 4, .offset = 0, .bytes = 8, .first = 3, .last = 2}};
  ASSERT_EQ(check_placement(plan).size(), 1u);
  EXPECT_EQ(check_placement(plan)[0], "buffer 4 ends in step 2 before it begins in 3");
}

TEST(Aliasing, EveryPairOfARandomPlanIsFound) {
  std::uint64_t seed = 5;
  std::mt19937_64 random(seed);
  auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  for (int round = 0; round < 200; ++round) {
    std::vector<PlacedBuffer> plan;
    for (int i = 0; i < 12; ++i) {
      int first = pick(0, 9);
      plan.push_back({.id = i,
                      .arena = pick(0, 1),
                      .offset = static_cast<std::size_t>(pick(0, 40)),
                      .bytes = static_cast<std::size_t>(pick(0, 9)),
                      .first = first,
                      .last = first + pick(0, 4)});
    }
    std::size_t want = 0;
    for (std::size_t a = 0; a < plan.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const PlacedBuffer &x = plan[a], &y = plan[b];
        bool time = x.first <= y.last && y.first <= x.last;
        bool bytes =
            x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes && x.bytes > 0 && y.bytes > 0;
        want += x.arena == y.arena && time && bytes;
      }
    ASSERT_EQ(check_placement(plan).size(), want) << "seed " << seed << " round " << round;
  }
}

using reference::Array;

Array f32s(std::vector<double> v) { return Array::of(dtypes::Float32, v); }

constexpr double kPart = 1e-6;

TEST(Compare, WithinTheBoundIsEqualAndBeyondItTheWorstElementIsNamed) {
  Array want = f32s({1, 2, 4});
  EXPECT_TRUE(compare(want, f32s({1, 2.000001, 4}), kPart).equal());
  Comparison c = compare(want, f32s({1, 2.5, 4.25}), kPart);
  EXPECT_EQ(c.different, 2);
  EXPECT_EQ(c.worst, 1);
  EXPECT_EQ(c.error, 0.5);
  EXPECT_NE(c.text().find("element 1 is 2.5, not 2: off by 0.5"), std::string::npos) << c.text();
}

TEST(Compare, NotANumberEqualsItselfAndNothingElse) {
  Array want = f32s({NAN, INFINITY, -INFINITY, 1});
  EXPECT_TRUE(compare(want, want, kPart).equal());
  EXPECT_EQ(compare(want, f32s({1, INFINITY, -INFINITY, 1}), kPart).worst, 0);
  EXPECT_EQ(compare(want, f32s({NAN, -INFINITY, -INFINITY, 1}), kPart).worst, 1);
  EXPECT_EQ(compare(want, f32s({NAN, INFINITY, -INFINITY, NAN}), kPart).worst, 3);
}

TEST(Compare, IntegersMustBeEqual) {
  std::vector<double> a = {1, 2, 3}, b = {1, 2, 4};
  EXPECT_TRUE(compare(Array::of(dtypes::Int64, a), Array::of(dtypes::Int64, a), kPart).equal());
  EXPECT_EQ(compare(Array::of(dtypes::Int64, a), Array::of(dtypes::Int64, b), kPart).worst, 2);
}

TEST(Compare, SizesAndDtypesMustMatch) {
  EXPECT_THROW(compare(f32s({1}), f32s({1, 2}), kPart), InternalError);
}

}  // namespace
}  // namespace lathe::verify
