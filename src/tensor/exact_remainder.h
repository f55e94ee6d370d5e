// The remainder of truncated division of floats, exact for every quotient, written once for tensors and for
// values of a hand-written kernel. `W` provides the operations on its `Value`:
//   cast(v, dtype), bitcast(v, dtype), abs(v), trunc(v), reciprocal(v), shift_left(v, n), shift_right(v, n),
//   bits_and(v, w), bits_or(v, w), at_least(v, w), less(v, w), equal(v, w), where(c, v, w), both(c, d),
//   ones(v)
// and Values have + - * with each other and with numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "lathe/tensor.h"

namespace lathe::exact_remainder {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// How many bits a quotient of two finite numbers of the dtype has at most; fewer where the divisor is known.
inline int quotient_bits(DataType dtype, std::optional<double> y) {
  const dtypes::FloatInfo info = dtypes::finfo(dtype);
  const int highest = 1 << (info.exponent_bits - 1);  // every number is below 2^highest
  const int lowest = 2 - highest - info.mantissa_bits;
  const bool known = y && *y != 0 && std::isfinite(*y);
  return std::max(highest - (known ? std::ilogb(*y) : lowest), 1);
}

// Of dtypes narrower than float64, in float64: x is brought below y*2^(bits*i), for one i after another down
// to 0, by whole multiples that are exact because quotient and divisor together have at most 53 bits. A
// quotient that is one off leaves a rest that is a little negative or a little too large, which the next step
// takes along.
template <class W, class V = typename W::Value>
V by_steps(const V& x, const V& y, DataType dtype, std::optional<double> known_y) {
  const int bits = 51 - dtypes::finfo(dtype).mantissa_bits;
  const int steps = (quotient_bits(dtype, known_y) + bits - 1) / bits;
  const V by = W::abs(W::cast(y, dtypes::float64)), inverse = W::reciprocal(by);
  V rest = W::abs(W::cast(x, dtypes::float64));
  for (int i = steps - 1; i >= 0; --i) {
    const V quotient = W::trunc(rest * (inverse * std::ldexp(1.0, -bits * i)));
    rest = rest - quotient * (by * std::ldexp(1.0, bits * i));
  }
  rest = W::where(W::less(rest, 0), rest + by, rest);
  return W::where(W::at_least(rest, by), rest - by, rest);
}

// A positive float64 as mantissa * 2^(exponent - 1075), with 2^52 <= mantissa < 2^53 also where it is
// subnormal.
template <class V>
struct Parts {
  V mantissa, exponent;  // int64
};
template <class W, class V = typename W::Value>
Parts<V> parts_of(const V& x) {
  constexpr std::int64_t kUnit = std::int64_t{1} << 52;
  constexpr int kLift = 54;
  const V number =
      W::where(W::less(x, kInfinity), x, 1.0);  // the sign and payload of NaN are nothing to compute with
  const V subnormal = W::less(number, std::numeric_limits<double>::min());
  const V bits = W::bitcast(W::where(subnormal, number * std::ldexp(1.0, kLift), number), dtypes::int64);
  const V exponent = W::shift_right(bits, 52) - W::cast(subnormal, dtypes::int64) * kLift;
  return {W::bits_or(W::bits_and(bits, kUnit - 1), kUnit), exponent};
}

// Arithmetic modulo an integer below 2^53.
template <class W>
struct Modulus {
  using V = typename W::Value;
  V m;        // int64
  V inverse;  // a little below 1/m, so that no quotient is ever too large

  explicit Modulus(const V& m) : m(m), inverse(W::reciprocal(W::cast(m, dtypes::float64)) * (1 - 0x1p-50)) {}

  V once(const V& x) const { return W::where(W::at_least(x, m), x - m, x); }  // x < 2m
  // a*b, both below m. The quotient is at most 13 too small, of 53 bits; the difference of the products is
  // right although both wrap. Then the same with what is left.
  V product(const V& a, const V& b) const {
    const V wide = W::cast(a, dtypes::float64) * inverse * W::cast(b, dtypes::float64);
    const V left = a * b - W::cast(wide, dtypes::int64) * m;
    return once(left - W::cast(W::cast(left, dtypes::float64) * inverse, dtypes::int64) * m);
  }
};

template <class W, class V = typename W::Value>
V power_of_two(const V& exponent) {
  return W::bitcast(W::shift_left(exponent + 1023, 52), dtypes::float64);
}

// Of float64: with whole mantissas m and n, (m * 2^d) mod n, where 2^d is raised by squaring.
template <class W, class V = typename W::Value>
V by_powers(const V& x, const V& y) {
  constexpr int kSquarings = 6;  // d < 2^(6+6), and what remains of it fits a shift below 2^52
  const Parts<V> a = parts_of<W>(x), b = parts_of<W>(y);
  const Modulus<W> modulus(b.mantissa);
  const V difference = a.exponent - b.exponent;
  const V apart = W::where(W::less(difference, 0), 0, difference);
  V power = W::shift_left(W::ones(b.mantissa), W::shift_right(apart, kSquarings));
  for (int bit = kSquarings - 1; bit >= 0; --bit) {
    const V square = modulus.product(power, power);
    power = W::where(W::equal(W::bits_and(W::shift_right(apart, bit), 1), 1), modulus.once(square + square),
                     square);
  }
  const V whole = W::cast(modulus.product(modulus.once(a.mantissa), power), dtypes::float64);
  // 2^exponent alone may be no number.
  const V exponent = b.exponent - 1075, half = W::shift_right(exponent, 1);
  return whole * power_of_two<W>(half) * power_of_two<W>(exponent - half);
}

// Without the sign of x: as large as it at most, NaN for an infinite x and for y = 0.
template <class W, class V = typename W::Value>
V size_of_rest(const V& x, const V& y, DataType dtype, std::optional<double> known_y) {
  const V size = W::abs(x), by = W::abs(y);
  V rest = size;
  if (dtype == dtypes::float64) {
    const V defined = W::both(W::less(size, kInfinity), W::less(0, by));
    rest = W::where(defined, by_powers<W>(size, by), std::numeric_limits<double>::quiet_NaN());
  } else {
    rest = W::cast(by_steps<W>(x, y, dtype, known_y), dtype);
  }
  return W::where(W::less(size, by), size, rest);  // also where y is infinite
}

}  // namespace lathe::exact_remainder
