#include "tensor/remainder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tensor/impl.h"

namespace lathe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<double> constant_of(const Tensor& x) {
  const Node n = node_of(x);
  if (!n.is_const() || n.attr().kind != Attr::Kind::Float) return {};
  return n.attr().f;
}

// How many bits a quotient of two finite numbers of the dtype has at most; fewer where the divisor is known.
int quotient_bits(DataType dtype, const Tensor& divisor) {
  const dtypes::FloatInfo info = dtypes::finfo(dtype);
  const int highest = 1 << (info.exponent_bits - 1);  // every number is below 2^highest
  const int lowest = 2 - highest - info.mantissa_bits;
  const std::optional<double> y = constant_of(divisor);
  const bool known = y && *y != 0 && std::isfinite(*y);
  return std::max(highest - (known ? std::ilogb(*y) : lowest), 1);
}

// Of dtypes narrower than float64, in float64: x is brought below y*2^(bits*i), for one i after another down
// to 0, by whole multiples that are exact because quotient and divisor together have at most 53 bits. A
// quotient that is one off leaves a rest that is a little negative or a little too large, which the next step
// takes along.
Tensor remainder_by_steps(const Tensor& x, const Tensor& y, DataType dtype) {
  const int bits = 51 - dtypes::finfo(dtype).mantissa_bits;
  const int steps = (quotient_bits(dtype, y) + bits - 1) / bits;
  const Tensor by = y.cast(dtypes::float64).abs(), inverse = by.reciprocal();
  Tensor rest = x.cast(dtypes::float64).abs();
  for (int i = steps - 1; i >= 0; --i) {
    const Tensor quotient = (rest * (inverse * std::ldexp(1.0, -bits * i))).trunc();
    rest = rest - quotient * (by * std::ldexp(1.0, bits * i));
  }
  rest = (rest < 0).where(rest + by, rest);
  return (rest >= by).where(rest - by, rest);
}

// A positive float64 as mantissa * 2^(exponent - 1075), with 2^52 <= mantissa < 2^53 also where it is
// subnormal.
struct Parts {
  Tensor mantissa, exponent;  // int64
};
Parts parts_of(const Tensor& x) {
  constexpr std::int64_t kUnit = std::int64_t{1} << 52;
  constexpr int kLift = 54;
  const Tensor number = x.isnan().where(1, x);  // the sign and payload of NaN are nothing to compute with
  const Tensor subnormal = number < std::numeric_limits<double>::min();
  const Tensor bits = subnormal.where(number * std::ldexp(1.0, kLift), number).bitcast(dtypes::int64);
  const Tensor exponent = bits.rshift(52) - subnormal.cast(dtypes::int64) * kLift;
  return {(bits & (kUnit - 1)) | kUnit, exponent};
}

// Arithmetic modulo a whole number below 2^53.
struct Modulus {
  Tensor m;        // int64
  Tensor inverse;  // a little below 1/m, so that no quotient is ever too large

  explicit Modulus(const Tensor& m) : m(m), inverse(m.cast(dtypes::float64).reciprocal() * (1 - 0x1p-50)) {}

  Tensor once(const Tensor& x) const { return (x >= m).where(x - m, x); }  // x < 2m
  // a*b, both below m. The quotient is at most 13 too small, of 53 bits; the difference of the products is
  // right although both wrap. Then the same with what is left.
  Tensor product(const Tensor& a, const Tensor& b) const {
    const Tensor quotient = (a.cast(dtypes::float64) * inverse * b.cast(dtypes::float64)).cast(dtypes::int64);
    const Tensor left = a * b - quotient * m;
    return once(left - (left.cast(dtypes::float64) * inverse).cast(dtypes::int64) * m);
  }
};

Tensor power_of_two(const Tensor& exponent) { return (exponent + 1023).lshift(52).bitcast(dtypes::float64); }

// Of float64: with whole mantissas m and n, (m * 2^d) mod n, where 2^d is raised by squaring.
Tensor remainder_by_powers(const Tensor& x, const Tensor& y) {
  constexpr int kSquarings = 6;  // d < 2^(6+6), and what remains of it fits a shift below 2^52
  const Parts a = parts_of(x), b = parts_of(y);
  const Modulus modulus(b.mantissa);
  const Tensor apart = (a.exponent - b.exponent).maximum(0);
  const Tensor one = b.mantissa.ones_like();
  Tensor power = one.lshift(apart.rshift(kSquarings));
  for (int bit = kSquarings - 1; bit >= 0; --bit) {
    const Tensor square = modulus.product(power, power);
    power = ((apart.rshift(bit) & 1) == 1).where(modulus.once(square + square), square);
  }
  const Tensor whole = modulus.product(modulus.once(a.mantissa), power).cast(dtypes::float64);
  // 2^exponent alone may be no number.
  const Tensor exponent = b.exponent - 1075, half = exponent.rshift(1);
  return whole * power_of_two(half) * power_of_two(exponent - half);
}

}  // namespace

Tensor truncated_remainder(const Tensor& dividend, const Tensor& divisor) {
  Scope scope;
  const DataType dtype = dividend.dtype();
  const Tensor x = dividend.detach(), y = divisor.detach();
  const Tensor size = x.abs(), by = y.abs();
  Tensor rest;
  if (dtype == dtypes::float64) {
    const Tensor undefined = ((size < kInfinity) & (by > 0)).logical_not();
    rest = undefined.where(NAN, remainder_by_powers(size, by));
  } else {
    rest = remainder_by_steps(x, y, dtype).cast(dtype);
  }
  rest = (size < by).where(size, rest);  // also where y is infinite
  return rest.copysign(x);
}

}  // namespace lathe
