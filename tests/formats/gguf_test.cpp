// GGUF files: values of every type, blocks against their definition, refusals.
#include <bit>
#include <cmath>
#include <random>

#include "support.h"

namespace lathe {
namespace {

// A file as the format has it.
class File {
 public:
  template <class T>
  File& number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  File& text(std::string_view t) {
    number<std::uint64_t>(t.size());
    bytes += t;
    return *this;
  }
  File& head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    bytes = "GGUF";
    return number(version).number(tensors).number(keys);
  }
  File& tensor(std::string_view name, const std::vector<std::uint64_t>& fastest_first, std::uint32_t type,
               std::uint64_t offset) {
    text(name).number<std::uint32_t>(static_cast<std::uint32_t>(fastest_first.size()));
    for (std::uint64_t size : fastest_first) number(size);
    return number(type).number(offset);
  }
  File& align(std::size_t to = 32) {
    bytes.resize((bytes.size() + to - 1) / to * to);
    return *this;
  }
  File& data(std::string_view raw) {
    bytes += raw;
    return *this;
  }
  std::string bytes;
};

class Gguf : public test::InFolder {
 protected:
  state::Gguf load(const File& file) const { return state::gguf_load(write("f.gguf", file.bytes)); }
  std::string refused(const File& file) const {
    const auto path = write("f.gguf", file.bytes);
    return refusal([&] {
      for (const auto& [name, tensor] : state::gguf_load(path).tensors) tensor.bytes();
    });
  }
};

double half(const std::string& raw, std::size_t at) {
  return static_cast<double>(
      static_cast<float>(Tensor::from_bytes(raw.data() + at, 2, {1}, dtypes::float16, "CPU").item()));
}
int byte(const std::string& raw, std::size_t at) { return static_cast<unsigned char>(raw[at]); }
int sbyte(const std::string& raw, std::size_t at) { return static_cast<signed char>(raw[at]); }

// The definitions, number by number.
using Values = std::vector<double>;
int nibble(const std::string& b, std::size_t at, int i) {
  return i < 16 ? byte(b, at + static_cast<std::size_t>(i)) & 15
                : byte(b, at + static_cast<std::size_t>(i) - 16) >> 4;
}
int bit(const std::string& b, std::size_t at, int i) {
  return byte(b, at + static_cast<std::size_t>(i / 8)) >> (i % 8) & 1;
}
Values small_block(std::uint32_t type, const std::string& b) {
  Values out;
  for (int i = 0; i < 32; ++i) switch (type) {
      case 2: out.push_back((nibble(b, 2, i) - 8) * half(b, 0)); break;
      case 3: out.push_back(nibble(b, 4, i) * half(b, 0) + half(b, 2)); break;
      case 6: out.push_back((nibble(b, 6, i) + 16 * bit(b, 2, i) - 16) * half(b, 0)); break;
      case 7: out.push_back((nibble(b, 8, i) + 16 * bit(b, 4, i)) * half(b, 0) + half(b, 2)); break;
      default: out.push_back(sbyte(b, 2 + static_cast<std::size_t>(i)) * half(b, 0)); break;
    }
  return out;
}
Values k_block(std::uint32_t type, const std::string& b) {
  Values out(256);
  for (int i = 0; i < 256; ++i) {
    const auto u = [](int v) { return static_cast<std::size_t>(v); };
    if (type == 14) {
      const int h = i / 128, quarter = i % 128 / 32, l = i % 32;
      const int low = byte(b, u(64 * h + l + (quarter % 2) * 32));
      const int four = quarter < 2 ? low & 15 : low >> 4;
      const int two = byte(b, u(128 + 32 * h + l)) >> (2 * quarter) & 3;
      out[u(i)] = half(b, 208) * sbyte(b, u(192 + i / 16)) * ((four | two << 4) - 32);
      continue;
    }
    const int j = i / 32, l = i % 32;
    const int s = j < 4 ? byte(b, u(4 + j)) & 63 : (byte(b, u(8 + j)) & 15) | byte(b, u(j)) >> 6 << 4;
    const int m = j < 4 ? byte(b, u(8 + j)) & 63 : byte(b, u(8 + j)) >> 4 | byte(b, u(4 + j)) >> 6 << 4;
    const int qs = type == 12 ? 16 : 48;
    const int pair = byte(b, u(qs + 32 * (j / 2) + l));
    int q = j % 2 == 0 ? pair & 15 : pair >> 4;
    if (type == 13) q += (byte(b, u(16 + l)) >> j & 1) * 16;
    out[u(i)] = half(b, 0) * s * q - half(b, 2) * m;
  }
  return out;
}

TEST_F(Gguf, BlocksAreUnpackedAsTheyAreDefined) {
  constexpr unsigned kSeed = 7;
  std::mt19937 rng(kSeed);
  struct Row {
    std::uint32_t type;
    std::uint64_t elements, bytes;
    std::vector<std::size_t> halves;  // bytes that are half-precision numbers
  };
  const Row rows[] = {{2, 32, 18, {0}},       {3, 32, 20, {0, 2}},  {6, 32, 22, {0}},
                      {7, 32, 24, {0, 2}},    {8, 32, 34, {0}},     {12, 256, 144, {0, 2}},
                      {13, 256, 176, {0, 2}}, {14, 256, 210, {208}}};
  for (const Row& row : rows) {
    std::string raw;
    Values want;
    for (int block = 0; block < 6; ++block) {
      std::string b(row.bytes, '\0');
      for (char& c : b) c = static_cast<char>(rng());
      for (std::size_t at : row.halves) {  // a finite number of modest size
        b[at + 1] = static_cast<char>(0x30 | (rng() & 0x83));
      }
      const Values values = row.elements == 32 ? small_block(row.type, b) : k_block(row.type, b);
      want.insert(want.end(), values.begin(), values.end());
      raw += b;
    }
    File f;
    f.head(1, 0).tensor("w", {row.elements * 2, 3}, row.type, 0).align().data(raw);
    const state::Gguf file = load(f);
    ASSERT_EQ(file.tensors.size(), 1u);
    const Tensor w = file.tensors[0].second;
    EXPECT_EQ(to_string(w.shape()), "(3, " + std::to_string(row.elements * 2) + ")");
    const Values got = w.tolist();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-5 * std::abs(want[i]) + 1e-6)
          << "type " << row.type << " at " << i << ", seed " << kSeed;
  }
}

TEST_F(Gguf, KeysHaveEveryType) {
  File f;
  f.head(0, 9);
  f.text("u8").number<std::uint32_t>(0).number<std::uint8_t>(200);
  f.text("i16").number<std::uint32_t>(3).number<std::int16_t>(-300);
  f.text("u64").number<std::uint32_t>(10).number<std::uint64_t>(1ull << 40);
  f.text("i64").number<std::uint32_t>(11).number<std::int64_t>(-5);
  f.text("f32").number<std::uint32_t>(6).number(1.5f);
  f.text("f64").number<std::uint32_t>(12).number(-2.25);
  f.text("bool").number<std::uint32_t>(7).number<std::uint8_t>(1);
  f.text("string").number<std::uint32_t>(8).text("words");
  f.text("array").number<std::uint32_t>(9).number<std::uint32_t>(8).number<std::uint64_t>(2).text("a").text(
      "b");
  const Object m = load(f).metadata;
  EXPECT_EQ(m["u8"].integer(), 200);
  EXPECT_EQ(m["i16"].integer(), -300);
  EXPECT_EQ(m["u64"].integer(), std::int64_t{1} << 40);
  EXPECT_EQ(m["i64"].integer(), -5);
  EXPECT_EQ(m["f32"].number(), 1.5);
  EXPECT_EQ(m["f64"].number(), -2.25);
  EXPECT_TRUE(m["bool"].boolean());
  EXPECT_EQ(m["string"].string(), "words");
  EXPECT_EQ(m["array"].items()[1].string(), "b");
}

TEST_F(Gguf, PlainTensorsAreViewsOfTheFile) {
  File f;
  f.head(2, 1).text("general.alignment").number<std::uint32_t>(4).number<std::uint32_t>(64);
  f.tensor("a", {3, 2}, 0, 0).tensor("b", {2}, 26, 64).align(64);
  for (int i = 0; i < 6; ++i) f.number(static_cast<float>(i));
  f.align(64).number(7).number(-8);
  const state::Gguf file = load(f);
  EXPECT_TRUE(file.tensors[0].second.device().starts_with("DISK:"));
  EXPECT_EQ(to_string(file.tensors[0].second.shape()), "(2, 3)");
  EXPECT_EQ(file.tensors[0].second.tolist(), (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.tensors[1].second.tolist(), (Values{7, -8}));
}

TEST_F(Gguf, AMappedFileIsTheTensorsMemory) {
  File f;
  f.head(2, 0).tensor("a", {3}, 0, 0).tensor("q", {32, 2}, 2, 32).align();
  f.number(1.0f).number(2.0f).number(3.0f).align().data(std::string(36, '1')).align();
  const auto path = write("mapped.gguf", f.bytes);
  const state::Gguf file = state::gguf_load(state::MappedFile{path});
  Tensor a = file.tensors[0].second;
  EXPECT_EQ(a.device(), "CPU");
  EXPECT_EQ(a.tolist(), (Values{1, 2, 3}));
  EXPECT_EQ(file.stored.at("q").type, "Q4_0");
  EXPECT_EQ(to_string(file.stored.at("q").stored.shape()), "(2, 18)");
  EXPECT_EQ(file.stored.at("q").stored.device(), "CPU");
  const Values twice = file.tensors[1].second.tolist();
  EXPECT_EQ(twice, state::gguf_load(path).tensors[1].second.tolist());
  a += 1;  // a copy of the page: the file stays
  EXPECT_EQ(a.tolist(), (Values{2, 3, 4}));
  EXPECT_EQ(read(path), f.bytes);
}

// Part `i` of a model of one tensor a part, whose value is `i`.
File part(int i, int count, int tensors) {
  File f;
  f.head(1, 3).text("split.no").number<std::uint32_t>(2).number(static_cast<std::uint16_t>(i));
  f.text("split.count").number<std::uint32_t>(2).number(static_cast<std::uint16_t>(count));
  f.text("split.tensors.count").number<std::uint32_t>(5).number<std::int32_t>(tensors);
  f.tensor("w" + std::to_string(i), {1}, 0, 0).align();
  return f.number(static_cast<float>(i)).align();
}

TEST_F(Gguf, AllPartsOfASplitModelAreRead) {
  std::vector<std::filesystem::path> paths;
  for (int i = 0; i < 3; ++i)
    paths.push_back(write("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", part(i, 3, 3).bytes));
  for (const auto& path : paths) {
    const state::Gguf file = state::gguf_load(path);
    ASSERT_EQ(file.tensors.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(file.tensors[i].first, "w" + std::to_string(i));
      EXPECT_EQ(file.tensors[i].second.tolist(), Values{static_cast<double>(i)});
    }
  }
}

TEST_F(Gguf, ASplitModelWithoutAllItsPartsIsRefused) {
  auto expect = [this](const state::Bytes& from, const std::string& why) {
    const std::string text = refusal([&] { state::gguf_load(from); });
    EXPECT_NE(text.find(why), std::string::npos) << text;
  };
  const auto first = write("m-00001-of-00002.gguf", part(0, 2, 2).bytes);
  expect(first, "it is part 1 of 2, and m-00002-of-00002.gguf is missing");
  write("m-00002-of-00002.gguf", part(0, 2, 2).bytes);
  expect(first, "it is part 1 of 2, where part 2 of 2 should be");
  write("m-00002-of-00002.gguf", part(1, 2, 2).bytes);
  EXPECT_EQ(state::gguf_load(first).tensors.size(), 2U);
  write("m-00001-of-00002.gguf", part(0, 2, 5).bytes);
  expect(first, "all parts have 2 tensors together, not 5");
  expect(write("renamed.gguf", part(0, 2, 2).bytes), "its name tells not where the others are");
  const std::string raw = part(0, 2, 2).bytes;
  expect(Tensor::from_bytes(raw.data(), raw.size(), {Size(raw.size())}, dtypes::uint8, "CPU"),
         "the other parts are only found for a file in a folder");
}

TEST_F(Gguf, WhatIsNoSuchFileIsRefusedWithTheReason) {
  auto expect = [&](const File& f, const std::string& part) {
    const std::string text = refused(f);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(File().data("no such file"), "does not begin with \"GGUF\"");
  expect(File().head(0, 0, 1), "version 1");
  expect(File().head(1ull << 60, 0), "truncated");
  expect(File().head(0, 1).text("k").number<std::uint32_t>(99), "no type 99");
  expect(File().head(0, 1).text("k").number<std::uint32_t>(9).number<std::uint32_t>(0).number(~0ull),
         "an array has");
  expect(File().head(1, 0).tensor("w", {32}, 4, 0), "is Q4_2, which is not read");
  expect(File().head(0, 0, 3u << 24), "its numbers have the high byte first");
  expect(File().head(1, 0).tensor("w", {32}, 77, 0), "has type 77");
  expect(File().head(1, 0).tensor("w", {33}, 2, 0).align().data(std::string(64, 'x')),
         "not a multiple of the block size");
  expect(File().head(1, 0).tensor("w", {32}, 2, 0).align().data("x"), "beyond the file");
  expect(File().head(1, 0).tensor("w", {1}, 0, 4).align().data(std::string(64, 'x')), "not aligned");
  expect(File().head(1, 0).tensor("w", {1ull << 62, 1ull << 62}, 0, 0), "cannot be counted");
  expect(File().head(2, 0).tensor("v", {16}, 0, 0).tensor("w", {8}, 0, 32).align().data(std::string(96, 'x')),
         "inside another");
  expect(File().head(2, 0).tensor("w", {1}, 0, 0).tensor("w", {1}, 0, 32).align().data(std::string(96, 'x')),
         "two tensors have the name");
}

}  // namespace
}  // namespace lathe
