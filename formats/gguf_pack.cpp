#include "formats/gguf_pack.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lathe::formats::gguf {

const int kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

std::uint16_t half_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const float size = std::fabs(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (size >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (size < 6.103515625e-05F)  // below the normal numbers, which are steps of 2^-24
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(size * 16777216.0F)));
  std::uint32_t magnitude = bits & 0x7fffffff;
  magnitude += 0xfff + ((magnitude >> 13) & 1);  // to nearest, ties to even
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000) >> 13));
}

float half_value(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest < 0x400) {
    const float small = static_cast<float>(rest) / 16777216.0F;
    return sign != 0 ? -small : small;
  }
  return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000));
}

float put_half(std::uint8_t* block, int at, float x) {
  const std::uint16_t bits = half_bits(x);
  block[at] = static_cast<std::uint8_t>(bits);
  block[at + 1] = static_cast<std::uint8_t>(bits >> 8);
  return half_value(bits);
}

namespace {

float inverse(float x) { return x == 0 ? 0 : 1 / x; }
// The number the furthest from zero, the first of equals.
float extreme(const float* x, int count) {
  return *std::max_element(x, x + count, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}
int away_from_zero(float x) { return static_cast<int>(std::round(x)); }

// 32 numbers of 4 bits in 16 bytes, the first 16 in the lower halves.
void put_nibbles(std::uint8_t* to, const int* numbers, int count = 32) {
  for (int i = 0; i < count / 2; ++i)
    to[i] = static_cast<std::uint8_t>((numbers[i] & 15) | (numbers[i + count / 2] & 15) << 4);
}
void put_fifth_bits(std::uint8_t* to, const int* numbers) {
  for (int i = 0; i < 32; ++i) to[i / 8] |= static_cast<std::uint8_t>((numbers[i] >> 4 & 1) << i % 8);
}

// Levels 0 to most around zero, which is most / 2 + 1/2; the extreme number is a level.
void symmetric(const float* x, int most, std::uint8_t* block, int* numbers) {
  const int half = (most + 1) / 2;
  const float scale = extreme(x, 32) / static_cast<float>(-half), each = inverse(scale);
  for (int i = 0; i < 32; ++i)
    numbers[i] = std::clamp(static_cast<int>(x[i] * each + (static_cast<float>(half) + 0.5F)), 0, most);
  put_half(block, 0, scale);
}
// Levels 0 to most from the least number to the greatest.
void ranged(const float* x, int most, std::uint8_t* block, int* numbers) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float scale = (*high - *low) / static_cast<float>(most), each = inverse(scale);
  for (int i = 0; i < 32; ++i)
    numbers[i] = std::clamp(static_cast<int>((x[i] - *low) * each + 0.5F), 0, most);
  put_half(block, 0, scale);
  put_half(block, 2, *low);
}

void q4_0_pack(const float* x, std::uint8_t* block) {
  int numbers[32];
  symmetric(x, 15, block, numbers);
  put_nibbles(block + 2, numbers);
}
void q4_1_pack(const float* x, std::uint8_t* block) {
  int numbers[32];
  ranged(x, 15, block, numbers);
  put_nibbles(block + 4, numbers);
}
void q5_0_pack(const float* x, std::uint8_t* block) {
  int numbers[32];
  symmetric(x, 31, block, numbers);
  put_fifth_bits(block + 2, numbers);
  put_nibbles(block + 6, numbers);
}
void q5_1_pack(const float* x, std::uint8_t* block) {
  int numbers[32];
  ranged(x, 31, block, numbers);
  put_fifth_bits(block + 4, numbers);
  put_nibbles(block + 8, numbers);
}
void q8_0_pack(const float* x, std::uint8_t* block) {
  const float scale = std::fabs(extreme(x, 32)) / 127, each = inverse(scale);
  put_half(block, 0, scale);
  for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<std::uint8_t>(away_from_zero(x[i] * each));
}

void iq4_nl_pack(const float* x, std::uint8_t* block) {
  const Levels levels{0, 15, kIq4Values};
  const float scale = put_half(block, 0, fitted_scale({x, 32}, levels)), each = inverse(scale);
  int numbers[32];
  for (int i = 0; i < 32; ++i) numbers[i] = levels.nearest(x[i] * each);
  put_nibbles(block + 2, numbers);
}

void mxfp4_pack(const float* x, std::uint8_t* block) {
  constexpr int kDoubled[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  constexpr int kBias = 127, kLargestPower = 2;  // of the largest level, 6
  const float largest = std::fabs(extreme(x, 32));
  const int exponent =
      largest > 0
          ? std::clamp(static_cast<int>(std::floor(std::log2(largest))) - kLargestPower + kBias, 0, 254)
          : 0;
  block[0] = static_cast<std::uint8_t>(exponent);
  const float scale = std::ldexp(0.5F, exponent - kBias);
  int numbers[32];
  for (int i = 0; i < 32; ++i) {
    numbers[i] = 0;
    for (int k = 1; k < 16; ++k)
      if (std::fabs(scale * static_cast<float>(kDoubled[k]) - x[i]) <
          std::fabs(scale * static_cast<float>(kDoubled[numbers[i]]) - x[i]))
        numbers[i] = k;
  }
  put_nibbles(block + 1, numbers);
}

// ---- three levels

// Levels 0, 1, 2 of 256 numbers.
float ternary(const float* x, int* numbers) {
  const float scale = std::fabs(extreme(x, 256)), each = inverse(scale);
  for (int i = 0; i < 256; ++i) numbers[i] = away_from_zero(x[i] * each) + 1;
  return scale;
}
// Up to five digits to the base 3 as a fraction of 256, rounded up.
std::uint8_t fraction(const int* first, int apart, int count) {
  constexpr int kWhole = 243;  // 3^5
  int value = 0;
  for (int i = 0, power = kWhole / 3; i < count; ++i, power /= 3) value += first[i * apart] * power;
  return static_cast<std::uint8_t>((value * 256 + kWhole - 1) / kWhole);
}
void tq1_0_pack(const float* x, std::uint8_t* block) {
  int numbers[256];
  put_half(block, 52, ternary(x, numbers));
  for (int i = 0; i < 32; ++i) block[i] = fraction(numbers + i, 32, 5);
  for (int i = 0; i < 16; ++i) block[32 + i] = fraction(numbers + 160 + i, 16, 5);
  for (int i = 0; i < 4; ++i) block[48 + i] = fraction(numbers + 240 + i, 4, 4);
}
void tq2_0_pack(const float* x, std::uint8_t* block) {
  int numbers[256];
  put_half(block, 64, ternary(x, numbers));
  for (int i = 0; i < 256; ++i)
    block[i / 128 * 32 + i % 32] |= static_cast<std::uint8_t>(numbers[i] << i % 128 / 32 * 2);
}

struct Row {
  std::string_view type;
  PackBlock pack;
};
constexpr Row kRows[] = {{"Q4_0", q4_0_pack},   {"Q4_1", q4_1_pack},     {"Q5_0", q5_0_pack},
                         {"Q5_1", q5_1_pack},   {"Q8_0", q8_0_pack},     {"Q2_K", q2_k_pack},
                         {"Q3_K", q3_k_pack},   {"Q4_K", q4_k_pack},     {"Q5_K", q5_k_pack},
                         {"Q6_K", q6_k_pack},   {"IQ4_NL", iq4_nl_pack}, {"IQ4_XS", iq4_xs_pack},
                         {"MXFP4", mxfp4_pack}, {"TQ1_0", tq1_0_pack},   {"TQ2_0", tq2_0_pack}};

}  // namespace

PackBlock packer_of(std::string_view type) {
  for (const Row& row : kRows)
    if (row.type == type) return row.pack;
  return nullptr;
}

std::vector<std::string_view> written_types() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.type);
  return names;
}

}  // namespace lathe::formats::gguf
