// Packing of 256 numbers in parts that have scales: the scales are fitted to the numbers first, then made
// multiples of the block's own, and the numbers are rounded to what then can be said.
#include <algorithm>
#include <array>
#include <cmath>

#include "formats/gguf_pack.h"

namespace lathe::formats::gguf {

int Levels::nearest(float x) const {
  if (values == nullptr)
    return static_cast<int>(std::clamp(std::nearbyint(x), static_cast<float>(low), static_cast<float>(high)));
  const int* after = std::lower_bound(values, values + high + 1, x,
                                      [](int v, float y) { return static_cast<float>(v) < y; });
  const auto at = static_cast<int>(after - values);
  if (at == 0) return 0;
  if (at > high) return high;
  return x - value(at - 1) <= value(at) - x ? at - 1 : at;
}

float Levels::farthest() const {
  const float a = value(low), b = value(high);
  return std::fabs(a) >= std::fabs(b) ? a : b;
}

float fitted_scale(std::span<const float> x, const Levels& levels) {
  const float extreme =
      *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  if (extreme == 0) return 0;
  constexpr int kTries = 10;
  constexpr float kStep = 0.01F;  // of the first guess
  double best = -1, scale = 0;
  for (const float side : {1.0F, -1.0F})  // the extreme number on either end of the levels
    for (int i = -kTries; i <= kTries; ++i) {
      const float each = side * levels.farthest() * (1 + kStep * static_cast<float>(i)) / extreme;
      double product = 0, square = 0;
      for (const float number : x) {
        const double level = levels.value(levels.nearest(number * each)),
                     weight = static_cast<double>(number) * number;
        product += weight * level * number;
        square += weight * level * level;
      }
      if (square > 0 && product * product > best * square) {
        best = product * product / square;
        scale = product / square;
      }
    }
  return static_cast<float>(scale);
}

ScaleAndMinimum fitted_range(std::span<const float> x, int most) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const float minimum = std::min(*low, 0.0F);
  if (*high <= minimum) return {0, -minimum};
  double mean_square = 0;
  for (const float number : x)
    mean_square += static_cast<double>(number) * number / static_cast<double>(x.size());
  const auto weight_of = [root = std::sqrt(mean_square)](float number) {
    return root + std::fabs(static_cast<double>(number));
  };
  // For each guess: the levels by it, the line through them with the least error, and that error.
  constexpr int kTries = 20;
  ScaleAndMinimum best{(*high - minimum) / static_cast<float>(most), -minimum};
  double least = INFINITY;
  for (int i = 0; i <= kTries; ++i) {
    const float each = (static_cast<float>(most) - 1 + 0.1F * static_cast<float>(i)) / (*high - minimum);
    double w = 0, wl = 0, squares = 0, wx = 0, wlx = 0;
    for (const float number : x) {
      const double level =
          std::clamp(std::nearbyint((number - minimum) * each), 0.0F, static_cast<float>(most));
      const double weight = weight_of(number);
      w += weight, wl += weight * level, squares += weight * level * level;
      wx += weight * number, wlx += weight * level * number;
    }
    const double determinant = w * squares - wl * wl;
    if (determinant <= 0) continue;
    double scale = (w * wlx - wl * wx) / determinant, taken = (wl * wlx - squares * wx) / determinant;
    if (taken < 0) taken = 0, scale = wlx / squares;
    if (!(scale > 0)) continue;
    double error = 0;
    for (const float number : x) {
      const double level =
          std::clamp(std::nearbyint((number + taken) / scale), 0.0, static_cast<double>(most));
      const double off = scale * level - taken - number;
      error += weight_of(number) * off * off;
    }
    if (error < least) least = error, best = {static_cast<float>(scale), static_cast<float>(taken)};
  }
  return best;
}

namespace {

constexpr int kNumbers = 256;

// `count` fields of `width` bits in every byte of rows of 32: the field of number i of a row's numbers.
void put_planes(std::uint8_t* to, const int* numbers, int count, int width) {
  const int mask = (1 << width) - 1;
  for (int i = 0; i < kNumbers; ++i)
    to[i / (32 * count) * 32 + i % 32] |=
        static_cast<std::uint8_t>((numbers[i] & mask) << i / 32 % count * width);
}

// Scales and minima of the parts as whole multiples of two halves, and the numbers' levels by them.
template <int kParts>
struct Ranges {
  std::array<int, kParts> scale{}, minimum{};
  std::array<int, kNumbers> numbers{};
};
template <int kParts>
Ranges<kParts> ranges_of(const float* x, int most, int most_scale, std::uint8_t* block, int scale_at) {
  constexpr int kSize = kNumbers / kParts;
  std::array<ScaleAndMinimum, kParts> fit;
  float top_scale = 0, top_minimum = 0;
  for (int p = 0; p < kParts; ++p) {
    fit[static_cast<std::size_t>(p)] = fitted_range({x + p * kSize, kSize}, most);
    top_scale = std::max(top_scale, fit[static_cast<std::size_t>(p)].scale);
    top_minimum = std::max(top_minimum, fit[static_cast<std::size_t>(p)].minimum);
  }
  const auto steps = static_cast<float>(most_scale);
  const float scale_unit = put_half(block, scale_at, top_scale / steps),
              minimum_unit = put_half(block, scale_at + 2, top_minimum / steps);
  const auto multiple = [&](float value, float unit) {
    return unit == 0 ? 0 : static_cast<int>(std::clamp(std::nearbyint(value / unit), 0.0F, steps));
  };
  Ranges<kParts> out;
  for (int p = 0; p < kParts; ++p) {
    const auto part = static_cast<std::size_t>(p);
    out.scale[part] = multiple(fit[part].scale, scale_unit);
    out.minimum[part] = multiple(fit[part].minimum, minimum_unit);
    const float scale = scale_unit * static_cast<float>(out.scale[part]),
                taken = minimum_unit * static_cast<float>(out.minimum[part]);
    for (int i = p * kSize; i < (p + 1) * kSize; ++i)
      out.numbers[static_cast<std::size_t>(i)] =
          scale == 0 ? 0
                     : static_cast<int>(std::clamp(std::nearbyint((x[i] + taken) / scale), 0.0F,
                                                   static_cast<float>(most)));
  }
  return out;
}

// Scales of the parts, from low to high, as whole multiples of a half; the numbers' levels by them.
template <int kParts>
struct Scaled {
  std::array<int, kParts> scale{};
  std::array<int, kNumbers> numbers{};
};
template <int kParts>
Scaled<kParts> scaled_of(const float* x, const Levels& levels, int low, int high, std::uint8_t* block,
                         int scale_at) {
  constexpr int kSize = kNumbers / kParts;
  std::array<float, kParts> fit;
  for (int p = 0; p < kParts; ++p)
    fit[static_cast<std::size_t>(p)] = fitted_scale({x + p * kSize, kSize}, levels);
  const float extreme =
      *std::max_element(fit.begin(), fit.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float unit =
      put_half(block, scale_at, extreme / static_cast<float>(low));  // low is the furthest from zero
  Scaled<kParts> out;
  for (int p = 0; p < kParts; ++p) {
    const auto part = static_cast<std::size_t>(p);
    out.scale[part] = unit == 0
                          ? 0
                          : static_cast<int>(std::clamp(std::nearbyint(fit[part] / unit),
                                                        static_cast<float>(low), static_cast<float>(high)));
    const float scale = unit * static_cast<float>(out.scale[part]);
    for (int i = p * kSize; i < (p + 1) * kSize; ++i)
      out.numbers[static_cast<std::size_t>(i)] = levels.nearest(scale == 0 ? 0 : x[i] / scale);
  }
  return out;
}

// Eight scales and minima of 6 bits in 12 bytes.
void put_six_bits(std::uint8_t* to, const std::array<int, 8>& scale, const std::array<int, 8>& minimum) {
  for (std::size_t i = 0; i < 4; ++i) {
    to[i] = static_cast<std::uint8_t>(scale[i] | (scale[i + 4] >> 4) << 6);
    to[i + 4] = static_cast<std::uint8_t>(minimum[i] | (minimum[i + 4] >> 4) << 6);
    to[i + 8] = static_cast<std::uint8_t>((scale[i + 4] & 15) | (minimum[i + 4] & 15) << 4);
  }
}

}  // namespace

void q2_k_pack(const float* x, std::uint8_t* block) {
  const Ranges<16> r = ranges_of<16>(x, 3, 15, block, 80);
  for (std::size_t p = 0; p < 16; ++p) block[p] = static_cast<std::uint8_t>(r.scale[p] | r.minimum[p] << 4);
  put_planes(block + 16, r.numbers.data(), 4, 2);
}

void q3_k_pack(const float* x, std::uint8_t* block) {
  Scaled<16> s = scaled_of<16>(x, {-4, 3}, -32, 31, block, 108);
  for (int& number : s.numbers) number += 4;
  put_planes(block + 32, s.numbers.data(), 4, 2);
  std::array<int, kNumbers> third{};
  for (std::size_t i = 0; i < kNumbers; ++i) third[i] = s.numbers[i] >> 2;
  put_planes(block, third.data(), 8, 1);
  for (std::size_t p = 0; p < 16; ++p) {
    const int code = s.scale[p] + 32;
    block[96 + p % 8] |= static_cast<std::uint8_t>((code & 15) << p / 8 * 4);
    block[104 + p % 4] |= static_cast<std::uint8_t>((code >> 4) << p / 4 * 2);
  }
}

void q4_k_pack(const float* x, std::uint8_t* block) {
  const Ranges<8> r = ranges_of<8>(x, 15, 63, block, 0);
  put_six_bits(block + 4, r.scale, r.minimum);
  put_planes(block + 16, r.numbers.data(), 2, 4);
}

void q5_k_pack(const float* x, std::uint8_t* block) {
  const Ranges<8> r = ranges_of<8>(x, 31, 63, block, 0);
  put_six_bits(block + 4, r.scale, r.minimum);
  std::array<int, kNumbers> fifth{};
  for (std::size_t i = 0; i < kNumbers; ++i) fifth[i] = r.numbers[i] >> 4;
  put_planes(block + 16, fifth.data(), 8, 1);
  put_planes(block + 48, r.numbers.data(), 2, 4);
}

void q6_k_pack(const float* x, std::uint8_t* block) {
  Scaled<16> s = scaled_of<16>(x, {-32, 31}, -128, 127, block, 208);
  for (int& number : s.numbers) number += 32;
  for (int i = 0; i < kNumbers; ++i)  // two halves of 128 numbers: 64 bytes with two of them each
    block[i / 128 * 64 + i % 64] |=
        static_cast<std::uint8_t>((s.numbers[static_cast<std::size_t>(i)] & 15) << i / 64 % 2 * 4);
  std::array<int, kNumbers> upper{};
  for (std::size_t i = 0; i < kNumbers; ++i) upper[i] = s.numbers[i] >> 4;
  put_planes(block + 128, upper.data(), 4, 2);
  for (std::size_t p = 0; p < 16; ++p) block[192 + p] = static_cast<std::uint8_t>(s.scale[p]);
}

void iq4_xs_pack(const float* x, std::uint8_t* block) {
  const Scaled<8> s = scaled_of<8>(x, {0, 15, kIq4Values}, -32, 31, block, 0);
  for (std::size_t p = 0; p < 8; ++p) {
    const int code = s.scale[p] + 32;
    block[2 + p / 4] |= static_cast<std::uint8_t>((code >> 4) << p % 4 * 2);
    block[4 + p / 2] |= static_cast<std::uint8_t>((code & 15) << p % 2 * 4);
    for (std::size_t i = 0; i < 16; ++i)
      block[8 + p * 16 + i] =
          static_cast<std::uint8_t>(s.numbers[p * 32 + i] | s.numbers[p * 32 + 16 + i] << 4);
  }
}

}  // namespace lathe::formats::gguf
