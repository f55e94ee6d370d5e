// Blocks with one scale, and those of 256 numbers whose parts have scales.
#include "formats/gguf_blocks.h"

#include "formats/gguf_unpack.h"

namespace lathe::formats::gguf {
namespace {

// Signed 4-bit floats (1 sign, 2 exponent, 1 fraction), doubled; and the sixteen levels of IQ4, denser
// around zero.
const std::vector<int> kDoubledE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
const std::vector<int> kIq4Levels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

// The lower halves of all bytes, then the upper.
Tensor nibbles(const Tensor& bytes) { return planes(bytes, 2, 4).flatten(1); }
// The fifth bits of 32 numbers are in 4 bytes.
Tensor with_fifth_bit(const Tensor& low, const Tensor& fifth) {
  return nibbles(low) | (fields(fifth, 8, 1).flatten(1) << 4);
}
Tensor signed_bytes(const Tensor& bytes) { return real(bytes.bitcast(dtypes::int8)); }

}  // namespace

Tensor words(const Tensor& bytes) {
  const Size count = bytes.size(-1).value() / 2;
  const Tensor pair = word(bytes.reshape({bytes.size(0), count, 2}));
  return pair.getitem({kEllipsis, 0}) | (pair.getitem({kEllipsis, 1}) << 8);
}

Tensor long_words(const Tensor& bytes) {
  const Size count = bytes.size(-1).value() / 4;
  const Tensor four = bytes.reshape({bytes.size(0), count, 4}).cast(dtypes::uint32);
  return four.getitem({kEllipsis, 0}) | (four.getitem({kEllipsis, 1}) << 8) |
         (four.getitem({kEllipsis, 2}) << 16) | (four.getitem({kEllipsis, 3}) << 24);
}

Tensor looked_up(const std::vector<int>& table, const Tensor& places, DataType dtype) {
  const Tensor values(table, TensorOptions{.dtype = dtype, .device = places.device()});
  return values[places.cast(dtypes::int32)];
}

// ---- 32 numbers

Tensor q4_0(const Tensor& b) { return half_at(b, 0) * (real(nibbles(part(b, 2, 18))) - 8); }
Tensor q4_1(const Tensor& b) { return half_at(b, 0) * real(nibbles(part(b, 4, 20))) + half_at(b, 2); }
Tensor q5_0(const Tensor& b) {
  return half_at(b, 0) * (real(with_fifth_bit(part(b, 6, 22), part(b, 2, 6))) - 16);
}
Tensor q5_1(const Tensor& b) {
  return half_at(b, 0) * real(with_fifth_bit(part(b, 8, 24), part(b, 4, 8))) + half_at(b, 2);
}
Tensor q8_0(const Tensor& b) { return half_at(b, 0) * signed_bytes(part(b, 2, 34)); }
ByteBlocks q4_0_bytes(const std::vector<Tensor>& blocks) {
  const Tensor& b = blocks[0];
  return {planes(part(b, 2, 18), 2, 4).cast(dtypes::int8) - 8, half_at(b, 0).flatten()};
}
ByteBlocks q8_0_bytes(const std::vector<Tensor>& blocks) {
  const Tensor& b = blocks[0];
  return {part(b, 2, 34).bitcast(dtypes::int8), half_at(b, 0).flatten()};
}
Tensor q8_1(const Tensor& b) { return half_at(b, 0) * signed_bytes(part(b, 4, 36)); }  // a sum is at 2
Tensor iq4_nl(const Tensor& b) {
  return half_at(b, 0) * looked_up(kIq4Levels, nibbles(part(b, 2, 18)), dtypes::float32);
}

// The scale is an exponent alone: half of 2^(e - 127), which for 0 and 1 is below the normal numbers.
Tensor mxfp4(const Tensor& b) {
  const Tensor e = part(b, 0, 1).cast(dtypes::uint32);
  const Tensor one = e.ones_like(), small = (one << 21) << e.minimum(1), usual = (e.maximum(1) - 1) << 23;
  const Tensor scale = (e < 2).where(small, usual).bitcast(dtypes::float32);
  return scale * looked_up(kDoubledE2M1, nibbles(part(b, 1, 17)), dtypes::float32);
}

// Four parts of 16, whose scales are floats of 4 exponent and 3 fraction bits, halved.
Tensor nvfp4(const Tensor& b) {
  const Tensor code = part(b, 0, 4), exponent = (code >> 3) & 15, fraction = real(code & 7);
  const Tensor power = ((exponent.maximum(1).cast(dtypes::uint32) + 120) << 23).bitcast(dtypes::float32);
  const Tensor whole = (exponent == 0).where(fraction / 8, fraction / 8 + 1) * power * 0.5;
  const Tensor scale = (code == 0x7f).where(0, whole).unsqueeze(-1);  // (blocks, 4, 1)
  const Tensor four = planes(part(b, 4, 36).reshape({b.size(0), 4, 8}), 2, 4).flatten(2);
  return (scale * looked_up(kDoubledE2M1, four, dtypes::float32)).flatten(1);
}

// ---- 256 numbers

namespace {

// 32 bytes at a time: their first fields, then their second, ...: (blocks, 256).
Tensor planes_of_32(const Tensor& bytes, std::int64_t count, std::int64_t width) {
  const Size rows = bytes.size(-1).value() / 32;
  return planes(bytes.reshape({bytes.size(0), rows, 32}), count, width).flatten(1);
}
Tensor scaled(const Tensor& scale, const Tensor& numbers) {  // scale (blocks, parts)
  const Size parts = scale.size(1);
  return scale.unsqueeze(-1) * numbers.reshape({numbers.size(0), parts, Size(256 / parts.value())});
}

// Scales and minima of 8 parts, 6 bits each, in 12 bytes: those of the first four parts whole, of the others
// the lower halves together and the upper bits beside those of the first four.
struct Scales {
  Tensor scale, minimum;  // (blocks, 8)
};
Scales scales_of(const Tensor& b, std::int64_t at) {
  const Tensor first = part(b, at, at + 4), second = part(b, at + 4, at + 8),
               third = part(b, at + 8, at + 12);
  const Tensor scale = Tensor::cat({first & 63, (third & 15) | ((first >> 6) << 4)}, 1);
  const Tensor minimum = Tensor::cat({second & 63, (third >> 4) | ((second >> 6) << 4)}, 1);
  return {real(scale) * half_at(b, 0), real(minimum) * half_at(b, 2)};
}
Tensor less_minima(const Scales& s, const Tensor& numbers) {
  return (scaled(s.scale, numbers) - s.minimum.unsqueeze(-1)).flatten(1);
}

}  // namespace

Tensor q2_k(const Tensor& b) {
  const Tensor codes = part(b, 0, 16);
  const Scales s{real(codes & 15) * half_at(b, 80), real(codes >> 4) * half_at(b, 82)};
  return less_minima(s, real(planes_of_32(part(b, 16, 80), 4, 2)));
}

// Numbers of 2 bits, 4 less where their bit in the mask is 0. The 16 scales: lower halves in 8 bytes, upper
// bits in 4.
Tensor q3_k(const Tensor& b) {
  const Tensor low = nibbles(part(b, 96, 104)), high = planes(part(b, 104, 108), 4, 2).flatten(1);
  const Tensor scale = (real(low | (high << 4)) - 32) * half_at(b, 108);
  const Tensor mask = planes_of_32(part(b, 0, 32), 8, 1);
  const Tensor numbers = real(planes_of_32(part(b, 32, 96), 4, 2) | (mask << 2)) - 4;
  return scaled(scale, numbers).flatten(1);
}

Tensor q4_k(const Tensor& b) {
  return less_minima(scales_of(b, 4), real(planes_of_32(part(b, 16, 144), 2, 4)));
}

Tensor blocks_last(const Tensor& scales) { return scales.permute({1, 0}).contiguous().permute({1, 0}); }

// 32 bytes are two parts, the lower halves and the upper: codes (parts / 2, 32), scales and minima
// (parts / 2, 2).
std::vector<Tensor> q4_k_parts(const Tensor& b) {
  const Scales s = scales_of(b, 4);
  const Size pairs = b.size(0) * 4;
  return {part(b, 16, 144).contiguous().reshape({pairs, 32}), blocks_last(s.scale.reshape({pairs, 2})),
          s.minimum.contiguous().reshape({pairs, 2})};
}

ByteBlocks q4_k_bytes(const std::vector<Tensor>& parts) {
  return {planes(parts[0], 2, 4), parts[1], parts[2]};
}

Tensor q5_k(const Tensor& b) {
  const Tensor fifth = planes_of_32(part(b, 16, 48), 8, 1);
  return less_minima(scales_of(b, 4), real(planes_of_32(part(b, 48, 176), 2, 4) | (fifth << 4)));
}

// Two halves of 128 numbers: 4 lower bits in 64 bytes, 2 upper ones in 32, a scale for every 16.
Tensor q6_k(const Tensor& b) {
  const Tensor lower = planes(part(b, 0, 128).reshape({b.size(0), 2, 64}), 2, 4).flatten(1);
  const Tensor upper = planes_of_32(part(b, 128, 192), 4, 2);
  const Tensor numbers = real(lower | (upper << 4)) - 32;
  return scaled(signed_bytes(part(b, 192, 208)) * half_at(b, 208), numbers).flatten(1);
}

Tensor q8_k(const Tensor& b) {  // sums of the numbers follow them
  return long_words(part(b, 0, 4)).bitcast(dtypes::float32) * signed_bytes(part(b, 4, 260));
}

Tensor iq4_xs(const Tensor& b) {
  const Tensor high = fields(words(part(b, 2, 4)), 8, 2).flatten(1),
               low = fields(part(b, 4, 8), 2, 4).flatten(1);
  const Tensor scale = (real(word(low) | (high << 4)) - 32) * half_at(b, 0);
  const Tensor four = planes(part(b, 8, 136).reshape({b.size(0), 8, 16}), 2, 4).flatten(1);
  return scaled(scale, looked_up(kIq4Levels, four, dtypes::float32)).flatten(1);
}

// ---- three levels, -1, 0 and 1

namespace {

// Digits to the base 3 of fractions of 256: each is three times the fraction, cut.
Tensor digits(const Tensor& bytes, std::int64_t count) {
  const std::vector<int> powers = {1, 3, 9, 27, 81};
  const Tensor factor(std::vector<int>(powers.begin(), powers.begin() + count),
                      TensorOptions{.dtype = dtypes::uint16, .device = bytes.device()});
  const Tensor moved = (word(bytes).unsqueeze(-2) * factor.unsqueeze(-1)) & 255;
  return ((moved * 3) >> 8).flatten(1);
}

}  // namespace

Tensor tq1_0(const Tensor& b) {
  const Tensor all =
      Tensor::cat({digits(part(b, 0, 32), 5), digits(part(b, 32, 48), 5), digits(part(b, 48, 52), 4)}, 1);
  return half_at(b, 52) * (real(all) - 1);
}
Tensor tq2_0(const Tensor& b) { return half_at(b, 64) * (real(planes_of_32(part(b, 0, 64), 4, 2)) - 1); }

}  // namespace lathe::formats::gguf
