#include "codegen/decompose/decompose_trig.h"

#include <cmath>
#include <limits>
#include <vector>

#include "codegen/decompose/decompose_parts.h"

namespace lathe {
namespace {

using namespace decompose_parts;

// The first 1280 bits of 2/pi.
constexpr std::uint32_t kTwoOverPi[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20, 0x9af4361d,
};

// sin(r) = r + r*z*p(z) and cos(r) = 1 - z/2 + z*z*p(z) with z = r*r, for |r| <= pi/4;
// relative errors 2^-32.5 and 2^-63.2, 2^-33.0 and 2^-63.9.
constexpr double kSinFloat[] = {-0x1.555556p-3, 0x1.111174p-7, -0x1.a05954p-13, 0x1.7c2c4ep-19};
constexpr double kSinDouble[] = {-0x1.5555555555555p-3, 0x1.1111111111069p-7,   -0x1.a01a019ffe523p-13,
                                 0x1.71de3a33a5800p-19, -0x1.ae642c51b4271p-26, 0x1.6109bd7dcf6e5p-33,
                                 -0x1.9ffd80c1179bfp-41};
constexpr double kCosFloat[] = {0x1.55554ap-5, -0x1.6c0c28p-10, 0x1.99e80cp-16};
constexpr double kCosDouble[] = {0x1.555555555554bp-5,   -0x1.6c16c16c1500dp-10, 0x1.a01a019c8dd1cp-16,
                                 -0x1.27e4f7f04ffc6p-22, 0x1.1ee9dacb6a37fp-29,  -0x1.8fa5ec7318e01p-37};

// One row per format. Large integers are lists of limbs, most significant first, short enough that columns of
// products need no carries of their own, and that a limb is exact as a float.
struct Format {
  int limb;                 // bits of a limb
  int parts;                // limbs of the mantissa
  int window;               // limbs of 2/pi that are multiplied
  int kept;                 // limbs of the product that are used
  double half_pi[2];        // pi/2: nearest number and rest
  double short_half_pi[2];  // pi/2: short head and rest
  std::span<const double> sine, cosine;
};
// The nearest a float32 comes to a multiple of pi/2 is 2^-31, a float64 2^-61: `kept` leaves 39 and 72 bits
// beyond.
constexpr Format kFloat = {
    24, 1, 4, 3, {0x1.921fb6p+0, -0x1.777a5cp-25}, {0x1.922p+0, -0x1.2aeef4p-18}, kSinFloat, kCosFloat};
constexpr Format kDouble = {27,
                            2,
                            7,
                            5,
                            {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54},
                            {0x1.921fb58p+0, -0x1.dde973dcb3b3ap-27},
                            kSinDouble,
                            kCosDouble};

// Bits [first, first + count) of 2/pi, bit 0 being the one worth 1/2; bits before it are 0.
std::uint64_t bits_of_two_over_pi(int first, int count) {
  std::uint64_t v = 0;
  for (int i = first; i < first + count; ++i)
    v = v << 1 | (i < 0 ? 0u : kTwoOverPi[i / 32] >> (31 - i % 32) & 1u);
  return v;
}

// The argument reduced: |x| = (quadrant + sign*magnitude) * pi/2 (mod 2 pi) as far as sine and cosine can
// tell.
struct Reduced {
  Node quadrant;      // uint32, modulo 4
  Node negative;      // uint32, 1 where the rest is below the multiple of pi/2
  Node angle, error;  // the rest times pi/2, at most pi/4, as an unevaluated sum
};

// The limbs of 2/pi from bit `offset` on: first whole limbs by powers of two, as a barrel shifter does, then
// bits.
std::vector<Node> window_of(const Real& r, const Format& f, Node offset) {
  const DType u32 = dtypes::UInt32;
  int largest = (2 * r.bias + 1 - (r.bias - 1)) / f.limb;  // whole limbs skipped for the largest exponent
  int count = f.window + 1;
  int before_first = r.mantissa + 3;  // the window of offset 0 starts this many bits before 2/pi
  std::vector<Node> limbs;
  for (int i = 0; i < largest + count; ++i)
    limbs.push_back(whole(offset, u32, bits_of_two_over_pi(i * f.limb - before_first, f.limb)));
  int step = static_cast<int>(std::bit_floor(static_cast<unsigned>(largest)));
  for (; step >= 1; step /= 2) {
    auto skipped = static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(f.limb);
    Node skip = less(whole(offset, u32, skipped - 1), offset);
    offset = where(skip, sub(offset, whole(offset, u32, skipped)), offset);
    int needed = std::min<int>(count + step - 1, static_cast<int>(limbs.size()));
    std::vector<Node> next;
    for (int i = 0; i < needed; ++i)
      next.push_back(i + step < static_cast<int>(limbs.size()) ? where(skip, limbs[i + step], limbs[i])
                                                               : limbs[i]);
    limbs = std::move(next);
  }
  // Now offset < f.limb < 32; the masks only let interval analysis see it.
  Node mask = whole(offset, u32, (1u << f.limb) - 1);
  Node left = bit_and(offset, whole(offset, u32, 31));
  Node right =
      bit_and(sub(whole(offset, u32, static_cast<std::uint64_t>(f.limb)), offset), whole(offset, u32, 31));
  std::vector<Node> window;
  for (int i = 0; i < f.window; ++i)
    window.push_back(bit_and(bit_or(shift_left(limbs[i], left), shift_right(limbs[i + 1], right)), mask));
  return window;
}

// |x| * 2/pi modulo 4 as limbs: the first two bits are the quadrant, the others the fraction.
std::vector<Node> product_of(const Real& r, const Format& f, Node magnitude_bits, Node small) {
  const DType u32 = dtypes::UInt32, u64 = dtypes::UInt64;
  Node biased =
      cast(shift_right(magnitude_bits, r.integer(small, static_cast<std::uint64_t>(r.mantissa))), u32);
  Node offset = where(small, whole(small, u32, 0),
                      sub(biased, whole(small, u32, static_cast<std::uint64_t>(r.bias - 1))));
  std::vector<Node> window = window_of(r, f, offset);

  Node fraction = bit_and(magnitude_bits, r.integer(small, r.encoding(1) - 1));
  Node mantissa = cast(bit_or(fraction, r.integer(small, r.encoding(1))), u64);
  Node limb_mask = whole(small, u64, (1u << f.limb) - 1);
  Node limb_width = whole(small, u64, static_cast<std::uint64_t>(f.limb));
  std::vector<Node> parts;  // least significant first
  for (int i = 0; i < f.parts; ++i) {
    Node shifted =
        i == 0 ? mantissa : shift_right(mantissa, whole(small, u64, static_cast<std::uint64_t>(i * f.limb)));
    parts.push_back(bit_and(shifted, limb_mask));
  }
  std::vector<Node> product(f.window);
  Node carry;
  for (int column = f.window - 1; column >= 0; --column) {
    Node sum = carry;
    for (int i = 0; i < f.parts && column + i < f.window; ++i) {
      Node term = parts[i] * cast(window[column + i], u64);
      sum = sum ? sum + term : term;
    }
    product[column] = cast(bit_and(sum, limb_mask), u32);
    carry = shift_right(sum, limb_width);
  }
  product.resize(static_cast<std::size_t>(f.kept));
  return product;
}

Reduced reduce(const Real& r, const Format& f, Node magnitude_bits) {
  const DType u32 = dtypes::UInt32;
  Node magnitude = r.from_bits(magnitude_bits);
  Node small =
      less(magnitude, r.number(magnitude, 0x1.921fb54442d18p-1));  // below pi/4 there is nothing to reduce
  std::vector<Node> limbs = product_of(r, f, magnitude_bits, small);

  // A fraction of a half or more belongs to the next quadrant, from below: its complement is what is left (up
  // to the last bit kept).
  auto u = [&](std::uint64_t v) { return whole(magnitude, u32, v); };
  Node negative = bit_and(shift_right(limbs[0], u(static_cast<std::uint64_t>(f.limb - 3))), u(1));
  Node flip = sub(u(0), negative);
  std::vector<Node> terms;
  for (int i = 0; i < f.kept; ++i) {
    int width = i == 0 ? f.limb - 2 : f.limb;
    Node digits = bit_and(bit_xor(limbs[i], flip), u((1u << width) - 1));
    terms.push_back(cast(cast(digits, dtypes::Int32), r.type) *
                    r.number(magnitude, std::ldexp(1.0, 2 - f.limb * (i + 1))));
  }
  // The terms as head + rest without loss: each of the first two sums is exact or has its error taken along.
  Node head = terms[0], next = terms[1], last = terms[2];
  if (f.kept == 5) {
    head = terms[0] + terms[1];
    next = terms[2] + terms[3];
    last = terms[4];
  }
  Node sum = head + next;
  Node rest = sub(next, sub(sum, head)) + last;
  Node fraction = sum + rest;
  rest = sub(rest, sub(fraction, sum));

  Node angle, error;
  auto n = [&](double v) { return r.number(magnitude, v); };
  if (r.fma) {
    angle = fraction * n(f.half_pi[0]);
    error = apply(Op::Fma, fraction, n(f.half_pi[0]), apply(Op::Neg, angle)) +
            (fraction * n(f.half_pi[1]) + rest * n(f.half_pi[0]));
  } else {
    Node upper = r.short_head(fraction), lower = sub(fraction, upper);
    Node exact = upper * n(f.short_half_pi[0]);
    Node others = upper * n(f.short_half_pi[1]) + (lower + rest) * n(f.half_pi[0]);
    angle = exact + others;
    error = sub(others, sub(angle, exact));
  }
  Reduced out;
  out.quadrant =
      where(small, u(0), shift_right(limbs[0], u(static_cast<std::uint64_t>(f.limb - 2))) + negative);
  out.negative = where(small, u(0), negative);
  out.angle = where(small, magnitude, angle);
  out.error = where(small, n(0), error);
  return out;
}

}  // namespace

Node decompose_trig(Op op, Node x, bool fma) {
  Real r(x.dtype(), fma);
  const Format& f = r.mantissa == 23 ? kFloat : kDouble;
  auto n = [&](double v) { return r.number(x, v); };
  auto u = [&](std::uint64_t v) { return whole(x, dtypes::UInt32, v); };
  Node bits = r.to_bits(x);
  Node sign = bit_and(bits, r.integer(x, r.sign_bit()));
  Node magnitude_bits = bit_xor(bits, sign);
  Reduced reduced = reduce(r, f, magnitude_bits);
  Node y = reduced.angle, error = reduced.error;

  Node z = y * y;
  Node sine = y + r.multiply_add(y * z, r.polynomial(z, f.sine), error);
  // 1 - z/2 is rounded; what the rounding lost is (1 - rounded) - z/2, exactly.
  Node half = z * n(0.5), rounded = sub(n(1), half);
  Node lost = sub(sub(n(1), rounded), half);
  Node cosine =
      rounded + (lost + r.multiply_add(z * z, r.polynomial(z, f.cosine), apply(Op::Neg, y * error)));

  // cos(x) = sin(x + pi/2). In odd quadrants the sine is a cosine, which does not see the sign of the rest.
  Node quadrant = op == Op::Cos ? reduced.quadrant + u(1) : reduced.quadrant;
  Node odd = equal(bit_and(quadrant, u(1)), u(1));
  Node flip = bit_xor(shift_right(quadrant, u(1)), where(odd, u(0), reduced.negative));
  Node flip_bit = shift_left(cast(bit_and(flip, u(1)), r.bits),
                             r.integer(x, static_cast<std::uint64_t>(r.type.bits() - 1)));
  if (op == Op::Sin) flip_bit = bit_xor(flip_bit, sign);
  Node value = r.from_bits(bit_xor(r.to_bits(where(odd, cosine, sine)), flip_bit));
  return where(less(r.from_bits(magnitude_bits), r.infinity(x)), value, r.nan(x));
}

}  // namespace lathe
