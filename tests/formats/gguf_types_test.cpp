// Every packed type of GGUF, bit for bit. The expected hashes were made by the `gguf` package of PyPI (0.19);
// tests/python/test_gguf.py compares with the package itself where it is installed.
#include <bit>
#include <cmath>
#include <cstring>

#include "support.h"

namespace lathe {
namespace {

struct Row {
  const char* type;
  std::int64_t bytes, elements;     // of a block
  std::vector<std::size_t> halves;  // places of half-precision scales, which are made finite
  std::uint64_t expected;           // FNV-1a of the numbers of kBlocks blocks
};
const Row kRows[] = {
    {"Q4_0", 18, 32, {0}, 0x6909c407dbd5ab51ULL},      {"Q4_1", 20, 32, {0, 2}, 0xcebcfae81f52c94fULL},
    {"Q5_0", 22, 32, {0}, 0x2a3fc0b73196dd83ULL},      {"Q5_1", 24, 32, {0, 2}, 0x5e21ec5999eb313bULL},
    {"Q8_0", 34, 32, {0}, 0xb60572a575480598ULL},      {"Q2_K", 84, 256, {80, 82}, 0x075376bf6a1fd935ULL},
    {"Q3_K", 110, 256, {108}, 0x3cadbd2d6f03e73bULL},  {"Q4_K", 144, 256, {0, 2}, 0xe10c4feaab8e49a4ULL},
    {"Q5_K", 176, 256, {0, 2}, 0x610307c720bd664aULL}, {"Q6_K", 210, 256, {208}, 0x83023ceda4d48d7dULL},
    {"IQ2_XXS", 66, 256, {0}, 0x0d452bb0bd5ffa22ULL},  {"IQ2_XS", 74, 256, {0}, 0x41191cf124e9acf2ULL},
    {"IQ2_S", 82, 256, {0}, 0x0e29ac19c374f8abULL},    {"IQ3_XXS", 98, 256, {0}, 0xedaaf8b7cd3ded3eULL},
    {"IQ3_S", 110, 256, {0}, 0x4b49d83036b46376ULL},   {"IQ1_S", 50, 256, {0}, 0xfc8ead91947a76f8ULL},
    {"IQ1_M", 56, 256, {54}, 0xd9e22ef81a3bf62dULL},   {"IQ4_NL", 18, 32, {0}, 0xb19111997cc900dbULL},
    {"IQ4_XS", 136, 256, {0}, 0x127a699e75b1ca3dULL},  {"TQ1_0", 54, 256, {52}, 0x52fb31d2e72dda04ULL},
    {"TQ2_0", 66, 256, {64}, 0x548be07a03db8ad2ULL},   {"MXFP4", 17, 32, {}, 0x7d7b4a0045e1d67eULL},
    {"NVFP4", 36, 64, {}, 0x08b6136b904da775ULL},
};
constexpr std::int64_t kBlocks = 64;

// Bytes that any language makes alike.
std::vector<unsigned char> bytes_of(const Row& row) {
  std::vector<unsigned char> raw;
  std::uint32_t x = 1;
  for (std::int64_t i = 0; i < kBlocks * row.bytes; ++i) {
    x = (x * 1103515245U + 12345U) & 0x7fffffffU;
    raw.push_back(static_cast<unsigned char>(x >> 16));
  }
  for (std::int64_t b = 0; b < kBlocks; ++b)
    for (const std::size_t at : row.halves) {
      unsigned char& high = raw[static_cast<std::size_t>(b * row.bytes) + at + 1];
      high = static_cast<unsigned char>(0x30 | (high & 0x83));
    }
  return raw;
}

std::uint64_t hash(const std::vector<std::byte>& bytes) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const std::byte b : bytes) h = (h ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ULL;
  return h;
}

TEST(GgufTypes, EveryPackedTypeIsUnpackedBitForBit) {
  for (const Row& row : kRows) {
    const std::vector<unsigned char> raw = bytes_of(row);
    const Tensor stored =
        Tensor::from_bytes(raw.data(), raw.size(), {Size(kBlocks / 2), Size(2 * row.bytes)}, dtypes::uint8);
    const Tensor numbers = state::gguf_unpack(row.type, stored);
    EXPECT_EQ(to_string(numbers.shape()), to_string(Shape{Size(kBlocks / 2), Size(2 * row.elements)}));
    EXPECT_EQ(hash(numbers.bytes()), row.expected) << row.type;
  }
}

// Not stored in files, but part of the format: a scale, sums that are not needed, and bytes.
TEST(GgufTypes, BlocksOfActivationsAreUnpacked) {
  std::vector<unsigned char> raw(36 + 292);
  for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<unsigned char>(i * 37 + 11);
  raw[0] = 0x00, raw[1] = 0x38;  // 0.5
  const float scale = -0.37F;
  std::memcpy(raw.data() + 36, &scale, sizeof scale);
  const Tensor small = state::gguf_unpack("Q8_1", Tensor::from_bytes(raw.data(), 36, {1, 36}, dtypes::uint8));
  const Tensor large =
      state::gguf_unpack("Q8_K", Tensor::from_bytes(raw.data() + 36, 292, {292}, dtypes::uint8));
  const std::vector<float> a = small.data<float>(), b = large.data<float>();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(a[i], 0.5F * static_cast<float>(static_cast<signed char>(raw[4 + i])));
  ASSERT_EQ(b.size(), 256U);
  for (std::size_t i = 0; i < b.size(); ++i)
    EXPECT_EQ(b[i], scale * static_cast<float>(static_cast<signed char>(raw[40 + i])));
}

// Blocks with one scale are unpacked by the kernel that uses the numbers. Of the others, scales of parts and
// points of grids may be written down first, the numbers never.
TEST(GgufTypes, AProductUnpacksInItsOwnKernel) {
  for (const Row& row : kRows) {
    const std::vector<unsigned char> raw = bytes_of(row);
    const Tensor stored =
        Tensor::from_bytes(raw.data(), raw.size(), {Size(kBlocks), Size(row.bytes)}, dtypes::uint8);
    const Tensor x = Tensor::ones({Size(row.elements)}).contiguous().realize();
    const std::vector<ScheduledKernel> kernels =
        (state::gguf_unpack(row.type, stored) * x).sum({1}).schedule();
    double bytes = 0;
    for (const ScheduledKernel& kernel : kernels) bytes += kernel.bytes;
    const auto numbers = static_cast<double>(4 * kBlocks * row.elements);
    EXPECT_LT(bytes, numbers + static_cast<double>(4 * row.elements))
        << row.type << ": the numbers are written out";
    if (row.halves.size() == 1 && row.elements == 32) {
      EXPECT_EQ(kernels.size(), 1U) << row.type;
    }
  }
}

// The sum over blocks of scale * scale of the row * the whole numbers' products, as far as float32 adds it
// up.
TEST(GgufTypes, AByteProductIsThatOfRoundedRows) {
  for (const Row& row : kRows) {
    if (!state::gguf_has_byte_product(row.type)) continue;
    const std::vector<unsigned char> raw = bytes_of(row);
    for (const std::int64_t out : {2, 8})
      for (const std::int64_t count : {1, 3, 9}) {
        const std::int64_t inner = kBlocks / out * row.elements;
        const Tensor stored = Tensor::from_bytes(raw.data(), raw.size(),
                                                 {Size(out), Size(kBlocks / out * row.bytes)}, dtypes::uint8);
        std::vector<float> x;
        for (std::int64_t i = 0; i < count * inner; ++i)
          x.push_back(i / 32 % 5 == 4 ? 0.0F
                                      : std::sin(static_cast<float>(i)) * static_cast<float>(1 + i / 32 % 3));
        const std::vector<float>
            weights = state::gguf_unpack(row.type, stored).data<float>(),
            got = state::gguf_byte_product(row.type, stored, Tensor(x, Shape{count, inner})).data<float>();
        for (std::int64_t r = 0; r < count; ++r)
          for (std::int64_t o = 0; o < out; ++o) {
            double want = 0, size = 0;
            for (std::int64_t b = 0; b < inner; b += 32) {
              float most = 0;
              for (std::int64_t i = b; i < b + 32; ++i)
                most = std::max(most, std::abs(x[static_cast<std::size_t>(r * inner + i)]));
              const float scale = most / 127;
              for (std::int64_t i = b; i < b + 32; ++i) {
                const float one = x[static_cast<std::size_t>(r * inner + i)];
                const float byte = scale > 0 ? std::nearbyint(one / scale) : 0;
                const double term = static_cast<double>(byte) * static_cast<double>(scale) *
                                    static_cast<double>(weights[static_cast<std::size_t>(o * inner + i)]);
                want += term, size += std::abs(term);
              }
            }
            EXPECT_NEAR(got[static_cast<std::size_t>(r * out + o)], want, 2e-6 * size)
                << row.type << ", row " << r << " of " << count << ", output " << o;
          }
      }
  }
}

// What is kept of a matrix is what the product takes out of it.
TEST(GgufTypes, AByteProductWithKeptPartsIsTheSame) {
  for (const Row& row : kRows) {
    if (!state::gguf_has_byte_product(row.type)) continue;
    const std::vector<unsigned char> raw = bytes_of(row);
    const Tensor stored =
        Tensor::from_bytes(raw.data(), raw.size(), {Size(2), Size(kBlocks / 2 * row.bytes)}, dtypes::uint8);
    const Tensor rows = (Tensor::arange(3 * kBlocks / 2 * row.elements) * 0.37)
                            .sin()
                            .reshape({Size(3), Size(kBlocks / 2 * row.elements)})
                            .realize();
    const std::vector<Tensor> parts = state::gguf_byte_parts(row.type, stored);
    EXPECT_EQ(parts.empty(), std::string_view(row.type) != "Q4_K");
    Tensor::realize_all(parts);
    EXPECT_EQ(state::gguf_byte_product(row.type, stored, rows, parts).data<float>(),
              state::gguf_byte_product(row.type, stored, rows).data<float>())
        << row.type;
  }
  const Tensor stored = Tensor::zeros({4, 144}, {.dtype = dtypes::uint8});
  const std::vector<Tensor> other =
      state::gguf_byte_parts("Q4_K", Tensor::zeros({2, 144}, {.dtype = dtypes::uint8}));
  EXPECT_THROW(state::gguf_byte_product("Q4_K", stored, Tensor::ones({1, 256}), other), UserError);
}

TEST(GgufTypes, AByteProductIsRefusedWhereSizesOrTypesDiffer) {
  const Tensor stored = Tensor::zeros({4, 18}, {.dtype = dtypes::uint8});
  const Tensor rows = Tensor::ones({2, 32});
  EXPECT_THROW(state::gguf_byte_product("Q4_0", stored, Tensor::ones({2, 64})), UserError);
  EXPECT_THROW(state::gguf_byte_product("Q6_K", stored, rows), UserError);
  EXPECT_THROW(state::gguf_byte_product("Q8_0", stored, rows), UserError);
  EXPECT_FALSE(state::gguf_has_byte_product("F16"));
  EXPECT_EQ(state::gguf_byte_product("Q4_0", stored, rows).data<float>(), std::vector<float>(8, 0.0F));
}

TEST(GgufTypes, WhatIsNoWholeBlockIsRefused) {
  const auto text = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  const Tensor bytes = Tensor::zeros({4, 18}, {.dtype = dtypes::uint8});
  EXPECT_NE(text([&] { state::gguf_unpack("Q9_9", bytes); }).find("Q9_9 is not a packed type"),
            std::string::npos);
  EXPECT_NE(text([&] { state::gguf_unpack("F16", bytes); }).find("not a packed type"), std::string::npos);
  EXPECT_NE(text([&] { state::gguf_unpack("Q5_0", bytes); }).find("22 bytes each"), std::string::npos);
  EXPECT_EQ(to_string(state::gguf_unpack("Q4_0", Tensor::zeros({0, 18}, {.dtype = dtypes::uint8})).shape()),
            "(0, 32)");
}

}  // namespace
}  // namespace lathe
