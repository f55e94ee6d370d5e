// Helpers for writing decompositions: constants with as many lanes as another value, and a float format as
// data. Private to decompose*.cpp.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "ir/build.h"

namespace lathe::decompose_parts {

// A constant for use beside `like`, of any dtype.
inline Node real(Node like, DType dtype, double v) {
  return splat(float_const(dtype.element(), v), like.dtype().lanes);
}
inline Node whole(Node like, DType dtype, std::uint64_t v) {
  return splat(int_const(dtype.element(), static_cast<std::int64_t>(v)), like.dtype().lanes);
}

inline Node sub(Node x, Node y) { return apply(Op::Sub, x, y); }
inline Node bit_and(Node x, Node y) { return apply(Op::And, x, y); }
inline Node bit_or(Node x, Node y) { return apply(Op::Or, x, y); }
inline Node bit_xor(Node x, Node y) { return apply(Op::Xor, x, y); }
inline Node shift_left(Node x, Node y) { return apply(Op::Shl, x, y); }
inline Node shift_right(Node x, Node y) { return apply(Op::Shr, x, y); }

// float32 or float64: its fields, and arithmetic on values of it.
class Real {
 public:
  Real(DType dtype, bool fma)
      : type(dtype.element()),
        bits(dtype.bits() == 32 ? dtypes::UInt32 : dtypes::UInt64),
        mantissa(dtype.bits() == 32 ? 23 : 52),
        bias(dtype.bits() == 32 ? 127 : 1023),
        fma(fma) {}

  const DType type;    // float32 or float64
  const DType bits;    // the unsigned integer of its width
  const int mantissa;  // stored bits of it
  const int bias;      // of the exponent
  const bool fma;      // Fma is one instruction

  Node number(Node like, double v) const { return real(like, type, v); }
  Node integer(Node like, std::uint64_t v) const { return whole(like, bits, v); }
  Node to_bits(Node x) const { return bitcast(x, bits); }
  Node from_bits(Node x) const { return bitcast(x, type); }
  Node nan(Node like) const {
    return from_bits(integer(like, encoding(2 * bias + 1) | std::uint64_t{1} << (mantissa - 1)));
  }
  Node infinity(Node like) const { return number(like, std::numeric_limits<double>::infinity()); }

  // The bits of 2^(biased - bias).
  std::uint64_t encoding(int biased) const { return static_cast<std::uint64_t>(biased) << mantissa; }
  std::uint64_t sign_bit() const { return std::uint64_t{1} << (type.bits() - 1); }

  // x*y + z, rounded once where the target can.
  Node multiply_add(Node x, Node y, Node z) const { return fma ? apply(Op::Fma, x, y, z) : x * y + z; }

  // coefficients[0] + x*(coefficients[1] + x*(...)).
  Node polynomial(Node x, std::span<const double> coefficients) const {
    Node sum = number(x, coefficients.back());
    for (std::size_t i = coefficients.size() - 1; i-- > 0;)
      sum = multiply_add(sum, x, number(x, coefficients[i]));
    return sum;
  }

  // x with its lower half of mantissa bits cleared, so that a product with another short number is exact.
  Node short_head(Node x) const {
    int cleared = mantissa == 23 ? 12 : 27;
    return from_bits(bit_and(to_bits(x), integer(x, ~std::uint64_t{0} << cleared)));
  }
};

}  // namespace lathe::decompose_parts
