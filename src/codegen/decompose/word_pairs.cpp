#include "codegen/decompose/word_pairs.h"

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/decompose/decompose_parts.h"

namespace lathe {
namespace {

using namespace decompose_parts;

constexpr DType kWord = dtypes::UInt32;

Node word(Node like, std::uint64_t v) { return whole(like, kWord, v); }
Node as_signed(Node x) { return bitcast(x, dtypes::Int32); }
Node as_word(Node x) { return bitcast(x, kWord); }
Node count(Node condition) { return cast(condition, kWord); }  // 1 or 0
// All bits the sign's.
Node sign_word(Node high) { return as_word(shift_right(as_signed(high), whole(high, dtypes::Int32, 31))); }
Node is_negative(Node high) { return less(as_signed(high), whole(high, dtypes::Int32, 0)); }

WordPair add(const WordPair& x, const WordPair& y) {
  Node low = x.low + y.low;
  return {low, x.high + y.high + count(less(low, x.low))};
}
WordPair subtract(const WordPair& x, const WordPair& y) {
  return {sub(x.low, y.low), sub(sub(x.high, y.high), count(less(x.low, y.low)))};
}
WordPair negated(const WordPair& x) { return subtract({word(x.low, 0), word(x.low, 0)}, x); }

// The whole product of two words, from those of their halves.
WordPair product_of_words(Node x, Node y) {
  auto low = [](Node v) { return bit_and(v, word(v, 0xffff)); };
  auto high = [](Node v) { return shift_right(v, word(v, 16)); };
  Node ll = low(x) * low(y), lh = low(x) * high(y), hl = high(x) * low(y), hh = high(x) * high(y);
  Node middle = high(ll) + low(lh) + low(hl);
  return {bit_or(low(ll), shift_left(middle, word(x, 16))), hh + high(lh) + high(hl) + high(middle)};
}
WordPair multiply(const WordPair& x, const WordPair& y) {
  const WordPair product = product_of_words(x.low, y.low);
  return {product.low, product.high + x.low * y.high + x.high * y.low};
}

// A word moved into the other one: by 32 - n, where n from 0 to 31 is less than what it takes to lose all
// bits.
WordPair shift_up(const WordPair& x, Node by) {
  Node n = bit_and(by, word(by, 31)), rest = bit_xor(n, word(by, 31)), far = less(word(by, 31), by);
  Node moved = shift_left(x.low, n);
  Node high = bit_or(shift_left(x.high, n), shift_right(shift_right(x.low, word(by, 1)), rest));
  return {where(far, word(by, 0), moved), where(far, moved, high)};
}
WordPair shift_down(const WordPair& x, Node by, bool is_signed) {
  Node n = bit_and(by, word(by, 31)), rest = bit_xor(n, word(by, 31)), far = less(word(by, 31), by);
  Node moved = is_signed ? as_word(shift_right(as_signed(x.high), as_signed(n))) : shift_right(x.high, n);
  Node low = bit_or(shift_right(x.low, n), shift_left(shift_left(x.high, word(by, 1)), rest));
  return {where(far, moved, low), where(far, is_signed ? sign_word(x.high) : word(by, 0), moved)};
}

struct Division {
  WordPair quotient, rest;
};

// Bit by bit from the highest: what is left takes one more bit of x, and y away where it fits.
Division divide_unsigned(const WordPair& x, const WordPair& y) {
  Node zero = word(x.low, 0);
  WordPair rest{zero, zero}, quotient{zero, zero};
  for (int bit = 63; bit >= 0; --bit) {
    Node from = bit >= 32 ? x.high : x.low;
    Node next = bit_and(shift_right(from, word(from, static_cast<std::uint64_t>(bit % 32))), word(from, 1));
    // What leaves at the top says that y fits, whatever is left below.
    Node over = less(word(zero, 0x7fffffff), rest.high);
    rest = {bit_or(shift_left(rest.low, word(zero, 1)), next),
            bit_or(shift_left(rest.high, word(zero, 1)), shift_right(rest.low, word(zero, 31)))};
    Node fits = bit_or(over, logical_not(compare_pairs(Op::Less, rest, y, false)));
    rest = select_pair(fits, subtract(rest, y), rest);
    Node& target = bit >= 32 ? quotient.high : quotient.low;
    target = bit_or(target, shift_left(count(fits), word(zero, static_cast<std::uint64_t>(bit % 32))));
  }
  return {quotient, rest};
}

// Numbers that are known to fit a word are divided by the machine.
bool fits_word(const WordPair& x) { return x.high.lo() == 0 && x.high.hi() == 0; }

Division divide(const WordPair& x, const WordPair& y, bool is_signed) {
  if (fits_word(x) && fits_word(y)) {
    Node zero = word(x.low, 0);
    return {{apply(Op::TruncDiv, x.low, y.low), zero}, {apply(Op::TruncMod, x.low, y.low), zero}};
  }
  if (!is_signed) return divide_unsigned(x, y);
  Node x_below = is_negative(x.high), y_below = is_negative(y.high);
  Division d = divide_unsigned(select_pair(x_below, negated(x), x), select_pair(y_below, negated(y), y));
  d.quotient = select_pair(bit_xor(x_below, y_below), negated(d.quotient), d.quotient);
  d.rest = select_pair(x_below, negated(d.rest), d.rest);
  return d;
}

// A float in [0, 2^32) as a word: machines convert to int32.
Node word_of_float(Node x) {
  const DType type = x.dtype().element();
  Node half = real(x, type, 0x1p31), above = logical_not(less(x, half));
  Node low = as_word(cast(where(above, sub(x, half), x), dtypes::Int32));
  return low + shift_left(count(above), word(low, 31));
}

WordPair pair_of_float(Node x) {
  const DType type = x.dtype().element();
  Node below = less(x, real(x, type, 0)), size = where(below, neg(x), x);
  Node high = word_of_float(apply(Op::Floor, size * real(x, type, 0x1p-32)));
  // Both parts are exact: a float has its bits next to each other.
  Node upper = apply(Op::Floor, size * real(x, type, 0x1p-32)) * real(x, type, 0x1p32);
  const WordPair out{word_of_float(apply(Op::Floor, sub(size, upper))), high};
  return select_pair(below, negated(out), out);
}

Node float_of_word(Node x, DType type) { return cast(x, type); }

// The number of bits of a word, 0 for 0, and the word 2^k - 1 of as many ones.
struct BitLength {
  Node bits, ones;
};
BitLength bit_length(Node x) {
  Node bits = word(x, 0), left = x;
  for (int step : {16, 8, 4, 2, 1}) {
    Node wide = less(word(x, (std::uint64_t{1} << step) - 1), left);
    bits = where(wide, bits + word(x, static_cast<std::uint64_t>(step)), bits);
    left = where(wide, shift_right(left, word(x, static_cast<std::uint64_t>(step))), left);
  }
  bits = bits + left;  // what is left is 1, or 0 where x is
  Node last = sub(word(x, 32), bits);
  Node ones = where(less(last, word(x, 32)), shift_right(word(x, 0xffffffff), bit_and(last, word(x, 31))),
                    word(x, 0));
  return {bits, ones};
}

// Rounded once: the 32 bits from the highest on, the last of them set where any below is.
Node float32_of(const WordPair& x) {
  const BitLength k = bit_length(x.high);
  const WordPair top = shift_down(x, k.bits, false);
  Node lost = apply(Op::Ne, bit_and(x.low, k.ones), word(x.low, 0));
  Node scale = bitcast(shift_left(k.bits + word(x.low, 127), word(x.low, 23)), dtypes::Float32);
  return float_of_word(bit_or(top.low, count(lost)), dtypes::Float32) * scale;
}
// The upper part is exact, so the sum rounds once.
Node float64_of(const WordPair& x) {
  return float_of_word(x.high, dtypes::Float64) * real(x.high, dtypes::Float64, 0x1p32) +
         float_of_word(x.low, dtypes::Float64);
}

}  // namespace

bool is_word_pair(DType dtype) { return dtype.scalar == Scalar::Int64 || dtype.scalar == Scalar::UInt64; }

WordPair pair_of_constant(std::int64_t value, std::uint16_t lanes) {
  const auto bits = static_cast<std::uint64_t>(value);
  auto part = [&](std::uint64_t v) {
    return splat(int_const(kWord, static_cast<std::int64_t>(v & 0xffffffff)), lanes);
  };
  return {part(bits), part(bits >> 32)};
}

WordPair pair_of(Node x) {
  if (x.dtype().is_float()) return pair_of_float(x);
  if (x.dtype().is_bool() || x.dtype().is_unsigned()) return {cast(x, kWord), word(x, 0)};
  Node low = as_word(cast(x, dtypes::Int32));
  return {low, x.lo() >= 0 ? word(x, 0) : sign_word(low)};
}

Node from_pair(const WordPair& x, bool is_signed, DType to) {
  if (to.is_bool()) return apply(Op::Ne, bit_or(x.low, x.high), word(x.low, 0));
  if (!to.is_float()) return cast(to.bits() == 32 && !to.is_unsigned() ? as_signed(x.low) : x.low, to);
  const bool wide = to.element() == dtypes::Float64;
  if (!wide && to.element() != dtypes::Float32)
    throw InternalError("split_words", fmt::format("a 64-bit integer becomes {}", to.str()));
  if (!is_signed) return wide ? float64_of(x) : float32_of(x);
  Node below = is_negative(x.high);
  const WordPair size = select_pair(below, negated(x), x);
  Node out = wide ? float64_of(size) : float32_of(size);
  return where(below, neg(out), out);
}

WordPair apply_to_pairs(Op op, const WordPair& x, const WordPair& y, bool is_signed) {
  switch (op) {
    case Op::Add: return add(x, y);
    case Op::Sub: return subtract(x, y);
    case Op::Mul: return multiply(x, y);
    case Op::TruncDiv: return divide(x, y, is_signed).quotient;
    case Op::TruncMod: return divide(x, y, is_signed).rest;
    case Op::Max: return select_pair(compare_pairs(Op::Less, x, y, is_signed), y, x);
    case Op::Min: return select_pair(compare_pairs(Op::Less, y, x, is_signed), y, x);
    case Op::And:
    case Op::Or:
    case Op::Xor: return {apply(op, x.low, y.low), apply(op, x.high, y.high)};
    case Op::Shl: return shift_up(x, y.low);
    case Op::Shr: return shift_down(x, y.low, is_signed);
    default: throw InternalError("split_words", fmt::format("{} of 64-bit integers", info(op).name));
  }
}

WordPair opposite_of(Op op, const WordPair& x) {
  return op == Op::Neg ? negated(x) : WordPair{apply(Op::Not, x.low), apply(Op::Not, x.high)};
}

Node compare_pairs(Op op, const WordPair& x, const WordPair& y, bool is_signed) {
  Node same = equal(x.high, y.high);
  if (op == Op::Eq) return logical_and(same, equal(x.low, y.low));
  if (op == Op::Ne) return bit_or(apply(Op::Ne, x.high, y.high), apply(Op::Ne, x.low, y.low));
  Node above = is_signed ? less(as_signed(x.high), as_signed(y.high)) : less(x.high, y.high);
  return bit_or(above, logical_and(same, less(x.low, y.low)));
}

WordPair select_pair(Node condition, const WordPair& yes, const WordPair& no) {
  return {where(condition, yes.low, no.low), where(condition, yes.high, no.high)};
}

}  // namespace lathe
