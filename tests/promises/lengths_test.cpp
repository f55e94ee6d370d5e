// A loop over lengths soon compiles nothing more, and its results are those of every length by itself.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/env.h"
#include "engine/engine.h"
#include "lathe/lathe.h"

namespace lathe {
namespace {

Tensor numbers(std::int64_t rows, std::int64_t columns) {
  std::vector<double> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 37 + 11) % 101) / 16 - 3;
  return Tensor(values, {rows, columns}, {.dtype = dtypes::float32});
}

std::vector<double> decoded(std::int64_t length) {
  const Tensor keys = numbers(length, 16);
  const Tensor weights = numbers(16, 24);
  return ((keys * 0.5 + 1).matmul(weights).relu() + static_cast<double>(length)).tolist();
}

// What an earlier process left on disk is not compiled at all.
std::uint64_t compiles_of(std::int64_t begin, std::int64_t end) {
  const FlagScope no_disk(Flag::Cache, "off");
  const std::uint64_t before = engine::counters().compiles;
  for (std::int64_t n = begin; n < end; ++n) decoded(n);
  return engine::counters().compiles - before;
}

TEST(Lengths, ALoopOverLengthsSoonCompilesNothingMore) {
  const FlagScope plain(Flag::NoOpt, "1");  // options may differ by size, and by machine
  engine::drop_caches();
  EXPECT_LE(compiles_of(40, 48), 24u);
  EXPECT_EQ(compiles_of(48, 240), 0u);
}

TEST(Lengths, WithoutSharingEveryLengthIsCompiled) {
  const FlagScope off(Flag::Lengths, "0");
  engine::drop_caches();
  EXPECT_GE(compiles_of(40, 60), 20u);
}

TEST(Lengths, ResultsAreThoseOfEachLengthByItself) {
  engine::drop_caches();
  for (std::int64_t n : {5, 6, 7, 8, 9, 1, 0, 2, 15, 16, 17, 24, 31, 64, 65, 100, 16, 24}) {
    const std::vector<double> shared = decoded(n);
    const FlagScope off(Flag::Lengths, "0");
    EXPECT_EQ(shared, decoded(n)) << "at length " << n;
  }
}

TEST(Lengths, TwoSizesAreCompiledByThemselves) {
  engine::drop_caches();
  const std::uint64_t two = compiles_of(40, 42);
  engine::drop_caches();
  const FlagScope off(Flag::Lengths, "0");
  EXPECT_EQ(compiles_of(40, 42), two);
}

}  // namespace
}  // namespace lathe
