#include "formats/gguf_blocks.h"

#include <array>
#include <utility>

namespace lathe::formats {
namespace {

// Bytes [begin, end) of every block.
Tensor part(const Tensor& blocks, std::int64_t begin, std::int64_t end) {
  return blocks.shrink({{0, blocks.size(0)}, {begin, end}});
}
// The half-precision number at this byte of every block: (blocks, 1).
Tensor half_at(const Tensor& blocks, std::int64_t at) {
  return part(blocks, at, at + 2).bitcast(dtypes::float16).cast(dtypes::float32);
}
Tensor low(const Tensor& bytes) { return bytes & 15; }
Tensor high(const Tensor& bytes) { return bytes >> 4; }
Tensor real(const Tensor& x) { return x.cast(dtypes::float32); }
Tensor whole(const Tensor& x) { return x.cast(dtypes::int32); }

// The first halves of 16 bytes, then the second: 32 numbers of 4 bits.
Tensor nibbles(const Tensor& bytes) { return Tensor::cat({low(bytes), high(bytes)}, 1); }
// The bits of 4 bytes, the lowest first: 32 numbers.
Tensor bits(const Tensor& bytes) {
  const Tensor shifts = Tensor::arange(8, {.dtype = dtypes::uint8, .device = bytes.device()});
  return ((bytes.unsqueeze(-1) >> shifts) & 1).flatten(1);
}

Tensor q4_0(const Tensor& b) { return half_at(b, 0) * (real(nibbles(part(b, 2, 18))) - 8); }
Tensor q4_1(const Tensor& b) { return half_at(b, 0) * real(nibbles(part(b, 4, 20))) + half_at(b, 2); }
Tensor q5(const Tensor& low_bits, const Tensor& high_bits) {
  return real(nibbles(low_bits) + bits(high_bits) * 16);
}
Tensor q5_0(const Tensor& b) { return half_at(b, 0) * (q5(part(b, 6, 22), part(b, 2, 6)) - 16); }
Tensor q5_1(const Tensor& b) { return half_at(b, 0) * q5(part(b, 8, 24), part(b, 4, 8)) + half_at(b, 2); }
Tensor q8_0(const Tensor& b) { return half_at(b, 0) * real(part(b, 2, 34).bitcast(dtypes::int8)); }

// ---- 256 numbers a block, in 8 parts of 32. Scales and minima of the parts are 6 bits each, in 12 bytes.

struct Scales {
  Tensor scale, minimum;  // (blocks, 8, 1)
};
Scales scales_of(const Tensor& b, std::int64_t at) {
  const Tensor first = part(b, at, at + 4), second = part(b, at + 4, at + 8),
               third = part(b, at + 8, at + 12);
  const Tensor scale = Tensor::cat({first & 63, low(third) | ((first >> 6) << 4)}, 1);
  const Tensor minimum = Tensor::cat({second & 63, high(third) | ((second >> 6) << 4)}, 1);
  return {real(scale).unsqueeze(-1) * half_at(b, 0).unsqueeze(-1),
          real(minimum).unsqueeze(-1) * half_at(b, 2).unsqueeze(-1)};
}
// 128 bytes: of every 32 of them the lower halves, then the upper. (blocks, 8, 32)
Tensor parts_of_nibbles(const Tensor& bytes) {
  const Tensor rows = bytes.reshape({bytes.size(0), 4, 32});
  return Tensor::stack({low(rows), high(rows)}, 2).reshape({bytes.size(0), 8, 32});
}
Tensor q4_k(const Tensor& b) {
  const Scales s = scales_of(b, 4);
  return (s.scale * real(parts_of_nibbles(part(b, 16, 144))) - s.minimum).flatten(1);
}
Tensor q5_k(const Tensor& b) {
  const Scales s = scales_of(b, 4);
  const Tensor shifts = Tensor::arange(8, {.dtype = dtypes::uint8, .device = b.device()}).reshape({1, 8, 1});
  const Tensor fifth = (part(b, 16, 48).unsqueeze(1) >> shifts) & 1;  // bit i of byte j: part i, number j
  return (s.scale * real(parts_of_nibbles(part(b, 48, 176)) + fifth * 16) - s.minimum).flatten(1);
}
// Two halves of 128 numbers: 4 lower bits in 64 bytes, 2 upper ones in 32, a scale for every 16.
Tensor q6_k(const Tensor& b) {
  const Size n = b.size(0);
  const Tensor lower = part(b, 0, 128).reshape({n, 2, 64}), upper = part(b, 128, 192).reshape({n, 2, 1, 32});
  const Tensor four = Tensor::cat({low(lower), high(lower)}, 2).reshape({n, 2, 4, 32});
  const Tensor shifts =
      (Tensor::arange(4, {.dtype = dtypes::uint8, .device = b.device()}) * 2).reshape({1, 1, 4, 1});
  const Tensor numbers = whole(four | (((upper >> shifts) & 3) << 4)) - 32;
  const Tensor scale = real(part(b, 192, 208).bitcast(dtypes::int8)).reshape({n, 16, 1});
  return (real(numbers).reshape({n, 16, 16}) * scale * half_at(b, 208).unsqueeze(-1)).flatten(1);
}

constexpr std::array kTypes = {
    GgufType{0, "F32", 1, 4, dtypes::float32, nullptr},
    GgufType{1, "F16", 1, 2, dtypes::float16, nullptr},
    GgufType{2, "Q4_0", 32, 18, dtypes::float32, q4_0},
    GgufType{3, "Q4_1", 32, 20, dtypes::float32, q4_1},
    GgufType{6, "Q5_0", 32, 22, dtypes::float32, q5_0},
    GgufType{7, "Q5_1", 32, 24, dtypes::float32, q5_1},
    GgufType{8, "Q8_0", 32, 34, dtypes::float32, q8_0},
    GgufType{12, "Q4_K", 256, 144, dtypes::float32, q4_k},
    GgufType{13, "Q5_K", 256, 176, dtypes::float32, q5_k},
    GgufType{14, "Q6_K", 256, 210, dtypes::float32, q6_k},
    GgufType{24, "I8", 1, 1, dtypes::int8, nullptr},
    GgufType{25, "I16", 1, 2, dtypes::int16, nullptr},
    GgufType{26, "I32", 1, 4, dtypes::int32, nullptr},
    GgufType{27, "I64", 1, 8, dtypes::int64, nullptr},
    GgufType{28, "F64", 1, 8, dtypes::float64, nullptr},
    GgufType{30, "BF16", 1, 2, dtypes::bfloat16, nullptr},
};
constexpr std::pair<std::uint32_t, std::string_view> kUnread[] = {
    {9, "Q8_1"},     {10, "Q2_K"},  {11, "Q3_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
    {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"},
    {29, "IQ1_M"},   {34, "TQ1_0"}, {35, "TQ2_0"},  {39, "MXFP4"}};

}  // namespace

const GgufType* gguf_type(std::uint32_t code) {
  for (const GgufType& type : kTypes)
    if (type.code == code) return &type;
  return nullptr;
}

const GgufType* gguf_type(std::string_view name) {
  for (const GgufType& type : kTypes)
    if (type.name == name) return &type;
  return nullptr;
}

std::string_view unread_gguf_type(std::uint32_t code) {
  for (const auto& [number, name] : kUnread)
    if (number == code) return name;
  return {};
}

}  // namespace lathe::formats
