// Tensors past the ends of 32-bit indices: more than 2^31 bytes, more than 2^31 elements (R14). Skipped, with
// the reason, where the machine has too little free memory. What is large is made and reduced in place of
// being listed, so that each test takes seconds.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "lathe/lathe.h"

namespace lathe {
namespace {

constexpr std::int64_t kMany = 3'000'000'017;  // elements: past 2^31, and a prime
constexpr std::int64_t kPast = (std::int64_t{1} << 31) + 11;

double free_gigabytes() {
  std::ifstream file("/proc/meminfo");
  std::string word, unit;
  for (double number; file >> word >> number;) {
    if (word == "MemAvailable:") return number / (1024.0 * 1024.0);
    std::getline(file, unit);
  }
  return 0;
}

#define LATHE_NEEDS_GIGABYTES(n) \
  if (free_gigabytes() < (n))    \
  GTEST_SKIP() << "needs " << (n) << " GiB of free memory, there are " << free_gigabytes()

// Element i is i & 127, as bytes.
Tensor bytes_by_position() {
  Tensor i = Tensor::arange(0, kMany, 1, {dtypes::int64});
  return i.bitwise_and(127).cast(dtypes::uint8).realize();
}
std::int64_t at(std::int64_t i) { return i & 127; }

TEST(Large, ThreeBillionElementsAreCountedWithoutMemory) {
  Tensor ones = Tensor::ones({kMany}, {dtypes::uint8});
  EXPECT_EQ(ones.sum({}, false, dtypes::int64).item<std::int64_t>(), kMany);
  // Positions themselves, past 32 bits: 0 + 1 + ... + (n - 1), modulo 2^64.
  Tensor i = Tensor::arange(0, kPast, 1, {dtypes::int64});
  EXPECT_EQ(i.sum().item<std::int64_t>(), kPast * (kPast - 1) / 2);
  EXPECT_EQ((i == kPast - 3).argmax().item<std::int64_t>(), kPast - 3);
}

TEST(Large, ThreeBillionElementsIndexRight) {
  LATHE_NEEDS_GIGABYTES(8);
  Tensor x = bytes_by_position();
  EXPECT_EQ(x.nbytes(), kMany);
  for (std::int64_t i : {std::int64_t{0}, kPast - 12, kPast, kMany - 1})
    EXPECT_EQ(x[i].item<std::int64_t>(), at(i)) << i;

  // A slice that begins past 2^31, one across it, and one with a step from the end.
  std::vector<std::int64_t> slice = x.getitem({Slice{kPast, kPast + 5}}).data<std::int64_t>();
  for (std::int64_t k = 0; k < 5; ++k) EXPECT_EQ(slice[static_cast<std::size_t>(k)], at(kPast + k));
  slice = x.getitem({Slice{kPast - 20, kPast + 20, 7}}).data<std::int64_t>();
  for (std::size_t k = 0; k < slice.size(); ++k)
    EXPECT_EQ(slice[k], at(kPast - 20 + 7 * static_cast<std::int64_t>(k)));
  slice = x.flip({0}).getitem({Slice{0, 5}}).data<std::int64_t>();
  for (std::int64_t k = 0; k < 5; ++k) EXPECT_EQ(slice[static_cast<std::size_t>(k)], at(kMany - 1 - k));

  // Indices from a tensor.
  std::vector<std::int64_t> wanted = {kMany - 1, 3, kPast + 100, kPast - 100};
  for (const Tensor& taken : {x.gather(0, Tensor(wanted)), x.getitem({Tensor(wanted)})}) {
    std::vector<std::int64_t> got = taken.data<std::int64_t>();
    for (std::size_t k = 0; k < wanted.size(); ++k) EXPECT_EQ(got[k], at(wanted[k])) << wanted[k];
  }

  // All of it, by rows of a view with more than 2^31 elements.
  std::int64_t want = 0, whole = kMany / 128;
  want = whole * (127 * 128 / 2);
  for (std::int64_t i = whole * 128; i < kMany; ++i) want += at(i);
  EXPECT_EQ(x.sum({}, false, dtypes::int64).item<std::int64_t>(), want);
}

TEST(Large, WritesPastTwoGigabytesLandWhereTheyShould) {
  LATHE_NEEDS_GIGABYTES(8);
  constexpr std::int64_t kFloats = (std::int64_t{1} << 29) + 1000;  // of 4 bytes: past 2^31 bytes
  Tensor x = Tensor::zeros({kFloats}).contiguous().realize();
  x.setitem({Slice{kFloats - 10, kFloats - 6}}, 5);
  x.setitem({7}, 2);
  EXPECT_EQ(x.sum().item(), 22);
  EXPECT_EQ(x[kFloats - 8].item(), 5);
  EXPECT_EQ(x[kFloats - 5].item(), 0);
  // A transposed view of it: row and column change places across the border.
  Tensor wide = x.getitem({Slice{0, 1 << 29}}).reshape({4, 1 << 27}).transpose();
  EXPECT_EQ(wide.sum({0}).data<float>(), (std::vector<float>{2, 0, 0, 0}));
}

}  // namespace
}  // namespace lathe
