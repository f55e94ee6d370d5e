#include "codegen/decompose/decompose_integer.h"

#include <bit>

#include "codegen/decompose/decompose_parts.h"

namespace lathe {
namespace {

using namespace decompose_parts;

Node like(Node x, std::int64_t v) { return whole(x, x.dtype(), static_cast<std::uint64_t>(v)); }

// Bounds of uint64 stop at int64's maximum, but 0 as a lower bound is right.
bool never(Node y, std::int64_t v) {
  return y.lo() > v || (y.hi() < v && y.dtype().scalar != Scalar::UInt64);
}
bool is_signed(DType dtype) { return dtype.is_int() && !dtype.is_unsigned(); }

// The power of two that every lane of y is, or -1.
int log2_of_constant(Node y) {
  Node c = y.is(Op::Splat) ? y.arg(0) : y;
  if (!c.is_const() || c.int_attr() <= 0) return -1;
  auto v = static_cast<std::uint64_t>(c.int_attr());
  return std::has_single_bit(v) ? std::countr_zero(v) : -1;
}

// Quotient and remainder toward zero, right for every y.
Node truncated(Op op, Node x, Node y) {
  bool zero = !never(y, 0);
  bool minus_one = is_signed(x.dtype()) && !never(y, -1) && x.lo() == x.dtype().min_int();
  if (!zero && !minus_one) return apply(op, x, y);
  Node is_zero = equal(y, like(y, 0)), is_minus_one = equal(y, like(y, -1));
  Node special = zero && minus_one ? bit_or(is_zero, is_minus_one) : zero ? is_zero : is_minus_one;
  Node plain =
      apply(op, x, where(special, like(y, 1), y));  // the remainder by 1 is 0, as it is by -1 and by 0
  if (op == Op::TruncMod) return plain;
  if (minus_one) plain = where(is_minus_one, neg(x), plain);
  return zero ? where(is_zero, like(x, 0), plain) : plain;
}

}  // namespace

Node decompose_division(Op op, Node x, Node y) {
  bool quotient = op == Op::FloorDiv || op == Op::TruncDiv;
  bool floor = op == Op::FloorDiv || op == Op::FloorMod;
  Op trunc_op = quotient ? Op::TruncDiv : Op::TruncMod;
  bool x_signed = is_signed(x.dtype()) && x.lo() < 0, y_signed = is_signed(y.dtype()) && y.lo() < 0;
  // Shifting rounds down, whatever the sign.
  if (int power = log2_of_constant(y); power >= 0 && (floor || !x_signed)) {
    if (!quotient) return bit_and(x, like(x, (std::int64_t{1} << power) - 1));
    return power == 0 ? x : shift_right(x, like(x, power));
  }
  if (!floor || (!x_signed && !y_signed)) return truncated(trunc_op, x, y);
  // Where signs differ and something remains, the floor is one below; the remainder then has the sign of y.
  Node rest = truncated(Op::TruncMod, x, y);
  Node zero = like(x, 0);
  Node below = y_signed ? logical_and(apply(Op::Ne, rest, zero), bit_xor(less(rest, zero), less(y, zero)))
                        : less(rest, zero);
  if (!quotient) return where(below, rest + y, rest);
  Node toward_zero = truncated(Op::TruncDiv, x, y);
  return where(below, toward_zero + like(x, -1), toward_zero);
}

Node decompose_shift(Op op, Node x, Node y) {
  int width = x.dtype().bits();
  if (y.dtype().scalar != Scalar::UInt64 || y.is_const() || y.is(Op::Splat))
    if (y.lo() >= 0 && y.hi() < width) return apply(op, x, y);
  // Masked counts are in range; whether the mask changed them says the rest (negative counts are large ones).
  Node masked = bit_and(y, like(y, width - 1));
  Node fits = equal(masked, y);
  if (op == Op::Shr && is_signed(x.dtype())) return shift_right(x, where(fits, masked, like(y, width - 1)));
  return where(fits, apply(op, x, masked), like(x, 0));
}

}  // namespace lathe
