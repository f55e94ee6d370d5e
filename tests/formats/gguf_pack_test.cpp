// Numbers into packed types: bytes against those of the `gguf` package of PyPI (0.19) where it packs a type,
// and for all types what comes back.
#include <cmath>
#include <limits>

#include "support.h"

namespace lathe {
namespace {

// Numbers that any language makes alike: 64 rows of 256, among them zeros, one sign only, small and large.
std::vector<float> numbers() {
  std::vector<float> out;
  std::uint32_t x = 1;
  for (std::size_t i = 0; i < 64 * 256; ++i) {
    x = (x * 1103515245U + 12345U) & 0x7fffffffU;
    float v = static_cast<float>(static_cast<int>(x >> 8 & 0xffff) - 32768) / 32768.0F;
    const std::size_t row = i / 256;
    if (row == 3) v = 0;
    if (row == 5) v = std::fabs(v);
    if (row == 7) v *= 1e-3F;
    if (row == 8) v *= 100.0F;
    out.push_back(v);
  }
  return out;
}

std::uint64_t hash(const std::vector<std::byte>& bytes) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const std::byte b : bytes) h = (h ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ULL;
  return h;
}

class GgufPack : public test::InFolder {
 protected:
  state::Gguf saved(const std::vector<state::GgufTensor>& tensors) {
    errors_ = state::gguf_save(Object::Entries{}, tensors, folder_ / "f.gguf");
    return state::gguf_load(folder_ / "f.gguf");
  }
  std::vector<state::GgufError> errors_;
};

TEST_F(GgufPack, BytesAreThoseOfTheFormatsOwnPackage) {
  const std::pair<const char*, std::uint64_t> rows[] = {
      {"Q4_0", 0x5d743c132c39ec86ULL},  {"Q4_1", 0x6f5203489bf1359cULL}, {"Q5_0", 0x58d0d15ab19468b7ULL},
      {"Q5_1", 0x730b02bb682f6f60ULL},  {"Q8_0", 0x7360a15bef927db9ULL}, {"TQ1_0", 0xb47571d29a03cc49ULL},
      {"TQ2_0", 0xa770cc24bc3200a8ULL}, {"MXFP4", 0xba8cd095875b5745ULL}};
  const Tensor x(numbers(), {64, 256});
  for (const auto& [type, expected] : rows)
    EXPECT_EQ(hash(saved({{"w", type, x}}).stored.at("w").stored.bytes()), expected) << type;
}

TEST_F(GgufPack, WhatComesBackIsNearAndToldHowNear) {
  // The most by which a row may be off, as a share of its own root of mean squares.
  const std::pair<const char*, double> rows[] = {
      {"F32", 0},       {"F16", 3e-4},  {"BF16", 3e-3}, {"Q8_0", 0.01}, {"Q6_K", 0.03}, {"Q5_K", 0.05},
      {"Q5_0", 0.06},   {"Q5_1", 0.05}, {"Q4_K", 0.10}, {"Q4_0", 0.11}, {"Q4_1", 0.10}, {"IQ4_XS", 0.12},
      {"IQ4_NL", 0.12}, {"MXFP4", 0.2}, {"Q3_K", 0.20}, {"Q2_K", 0.35}, {"TQ1_0", 0.6}, {"TQ2_0", 0.6}};
  const std::vector<float> x = numbers();
  for (const auto& [type, most] : rows) {
    const state::Gguf file = saved({{"w", type, Tensor(x, {64, 256})}});
    EXPECT_EQ(file.stored.at("w").type, type);
    const std::vector<float> back = file.tensors[0].second.data<float>();
    double all_off = 0;
    for (std::size_t row = 0; row < 64; ++row) {
      double off = 0, size = 0;
      for (std::size_t i = row * 256; i < (row + 1) * 256; ++i) {
        off += (back[i] - x[i]) * (back[i] - x[i]);
        size += x[i] * x[i];
      }
      EXPECT_LE(std::sqrt(off), most * std::sqrt(size)) << type << ", row " << row;
      all_off += off;
    }
    EXPECT_NEAR(errors_[0].error, std::sqrt(all_off / static_cast<double>(x.size())), 1e-6) << type;
    // Packed once more, the same bytes are kept as they are.
    if (state::gguf_is_packed(type)) {
      const std::vector<std::byte> bytes = file.stored.at("w").stored.bytes();
      const state::Gguf again = saved({{"w", type, file.stored.at("w").stored, true}});
      EXPECT_EQ(again.stored.at("w").stored.bytes(), bytes) << type;
      EXPECT_EQ(to_string(again.tensors[0].second.shape()), "(64, 256)");
    }
  }
}

TEST_F(GgufPack, KeysComeBackAsTheyWere) {
  const Object::Entries keys = {{"a", 7},
                                {"b", -7},
                                {"c", std::int64_t{1} << 40},
                                {"d", 1.5},
                                {"e", true},
                                {"f", "text"},
                                {"g", Object::Items{1, -2, 3}},
                                {"h", Object::Items{"x", "y"}},
                                {"i", Object::Items{1.5, 2}},
                                {"j", Object::Items{}}};
  state::gguf_save(keys, {}, folder_ / "k.gguf");
  const Object back = state::gguf_load(folder_ / "k.gguf").metadata;
  EXPECT_EQ(back["a"].integer(), 7);
  EXPECT_EQ(back["b"].integer(), -7);
  EXPECT_EQ(back["c"].integer(), std::int64_t{1} << 40);
  EXPECT_EQ(back["d"].number(), 1.5);
  EXPECT_TRUE(back["e"].boolean());
  EXPECT_EQ(back["f"].string(), "text");
  EXPECT_EQ(back["g"].items()[1].integer(), -2);
  EXPECT_EQ(back["h"].items()[1].string(), "y");
  EXPECT_EQ(back["i"].items()[1].number(), 2);
  EXPECT_TRUE(back["j"].items().empty());
}

TEST_F(GgufPack, WhatCannotBeWrittenIsRefusedAndLeavesNoFile) {
  const auto refused = [&](const state::GgufTensor& tensor) {
    return refusal([&] { state::gguf_save(Object::Entries{}, {tensor}, folder_ / "r.gguf"); });
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  std::vector<float> x(32, 1.0F);
  has(refused({"w", "Q4_0", Tensor(std::vector<float>(33, 1.0F))}), "not a multiple of the block size 32");
  has(refused({"w", "IQ2_XS", Tensor(std::vector<float>(256, 1.0F))}), "is read and not written");
  has(refused({"w", "Q9", Tensor(x)}), "which is not a type");
  x[5] = std::numeric_limits<float>::quiet_NaN();
  has(refused({"w", "Q8_0", Tensor(x)}), "holds nan at 5");
  x[5] = 1e30F;
  has(refused({"w", "Q4_1", Tensor(x)}), "beyond the scales of Q4_1");
  has(refused({"w", "F16", Tensor(x)}), "which is beyond F16");
  has(refused({"w", "Q4_0", Tensor(std::vector<int>(17, 1), {.dtype = dtypes::uint8}), true}),
      "18 bytes each");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r.gguf"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace lathe
