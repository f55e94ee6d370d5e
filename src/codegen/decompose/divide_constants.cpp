#include "codegen/decompose/divide_constants.h"

#include <bit>

#include "codegen/decompose/decompose_parts.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using namespace decompose_parts;

Node like(Node x, std::uint64_t v) { return whole(x, x.dtype(), v); }

// The upper half of x * c, of unsigned numbers: from the products of their halves.
Node upper_product(Node x, std::uint64_t c) {
  const int width = x.dtype().bits(), half = width / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto low = [&](Node v) { return bit_and(v, like(v, mask)); };
  auto high = [&](Node v) { return shift_right(v, like(v, static_cast<std::uint64_t>(half))); };
  Node c_low = like(x, c & mask), c_high = like(x, c >> half);
  Node ll = low(x) * c_low, lh = low(x) * c_high, hl = high(x) * c_low, hh = high(x) * c_high;
  Node middle = high(ll) + low(lh) + low(hl);
  return hh + high(lh) + high(hl) + high(middle);
}

// x / d of unsigned numbers, d no power of two. With s = ceil(log2 d), the reciprocal 2^(width + s) / d
// rounded up has width + 1 bits, of which the first is left out and added back: its error times any x stays
// below 1/d.
Node unsigned_quotient(Node x, std::uint64_t d) {
  const int width = x.dtype().bits(), shift = static_cast<int>(std::bit_width(d - 1));
  using Wide = unsigned __int128;
  const Wide one = 1;
  const auto reciprocal = static_cast<std::uint64_t>((((one << shift) - d) << width) / d + 1);
  Node t = upper_product(x, reciprocal);
  return shift_right(t + shift_right(sub(x, t), like(x, 1)), like(x, static_cast<std::uint64_t>(shift - 1)));
}

DType unsigned_of(DType dtype) {
  return (dtype.bits() == 64 ? dtypes::UInt64 : dtypes::UInt32).vec(dtype.lanes);
}

// Toward zero, as TruncDiv does; d is neither 0, 1 nor -1.
Node quotient(Node x, std::int64_t d) {
  const DType dtype = x.dtype(), plain = unsigned_of(dtype);
  const bool narrow = dtype.bits() < 32, may_be_negative = !dtype.is_unsigned() && x.lo() < 0;
  const DType wide = narrow && !dtype.is_unsigned() ? dtypes::Int32.vec(dtype.lanes) : narrow ? plain : dtype;
  Node number = narrow ? cast(x, wide) : x, zero = like(number, 0);
  Node below = may_be_negative ? less(number, zero) : Node();
  Node size = below ? where(below, neg(number), number) : number;
  const bool negative_divisor = !dtype.is_unsigned() && d < 0;
  const std::uint64_t by =
      negative_divisor ? 0 - static_cast<std::uint64_t>(d) : static_cast<std::uint64_t>(d);
  Node bits = bitcast(size, plain);
  Node q = std::has_single_bit(by)
               ? shift_right(bits, like(bits, static_cast<std::uint64_t>(std::countr_zero(by))))
               : unsigned_quotient(bits, by);
  q = bitcast(q, wide);
  if (below) q = negative_divisor ? where(below, q, neg(q)) : where(below, neg(q), q);
  if (!below && negative_divisor) q = neg(q);
  return narrow ? cast(q, dtype) : q;
}

// The constant that all lanes of a divisor are, where it is worth a multiplication.
Node divisor_of(Node n) {
  if ((!n.is(Op::TruncDiv) && !n.is(Op::TruncMod)) || !n.dtype().is_int()) return Node();
  Node c = constant_of(n.arg(1));
  if (!c || c.int_attr() == 0 || c.int_attr() == 1) return Node();
  return c.int_attr() == -1 && !n.dtype().is_unsigned() ? Node() : c;
}

}  // namespace

Node divide_constants(Node kernel, const Target& target) {
  if (target.divides_constants || target.reference) return kernel;
  NodeMap<Node> done;
  return rebuilt(toposort(kernel), done, [](Node n, std::span<const Node> args) {
    Node c = divisor_of(n);
    if (!c) return Node();
    Node q = quotient(args[0], c.int_attr());
    return n.is(Op::TruncDiv) ? q : sub(args[0], q * args[1]);
  });
}

}  // namespace lathe
