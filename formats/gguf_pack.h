// Numbers into the packed types of GGUF, a block at a time: the opposite of gguf_unpack.h, on the host.
// Scales are chosen from the numbers alone; types that only make sense with a measure of what matters (the
// IQ1 and IQ2 types, IQ3) are not written.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lathe::formats::gguf {

// The numbers of one block to its bytes, which are zero before.
using PackBlock = void (*)(const float* x, std::uint8_t* block);
PackBlock packer_of(std::string_view type);  // null where the type is not written
std::vector<std::string_view> written_types();

// ---- for the packers
std::uint16_t half_bits(float x);  // rounded to nearest, ties to even
float half_value(std::uint16_t bits);
// Writes the half at this byte and gives what it stands for.
float put_half(std::uint8_t* block, int at, float x);

// The levels that a scale multiplies.
struct Levels {
  int low, high;                // integers from low to high,
  const int* values = nullptr;  // or those of a table, high + 1 of them, rising

  float value(int level) const { return static_cast<float>(values == nullptr ? level : values[level]); }
  int nearest(float x) const;
  float farthest() const;  // the value the furthest from zero
};
// The scale for which scale * level is nearest to x, each error weighted by the square of its number.
float fitted_scale(std::span<const float> x, const Levels& levels);
// A scale and what is taken away: x is nearly scale * level - minimum, for levels 0 to most; both are not
// negative.
struct ScaleAndMinimum {
  float scale = 0, minimum = 0;
};
ScaleAndMinimum fitted_range(std::span<const float> x, int most);

void q2_k_pack(const float* x, std::uint8_t* block);
void q3_k_pack(const float* x, std::uint8_t* block);
void q4_k_pack(const float* x, std::uint8_t* block);
void q5_k_pack(const float* x, std::uint8_t* block);
void q6_k_pack(const float* x, std::uint8_t* block);
void iq4_xs_pack(const float* x, std::uint8_t* block);
extern const int kIq4Values[16];

}  // namespace lathe::formats::gguf
