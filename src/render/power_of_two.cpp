#include "render/power_of_two.h"

#include <bit>
#include <cstdint>

#include "ir/build.h"
#include "render/prepare.h"

namespace lathe::render {
namespace {

constexpr int kMantissa = 23;
constexpr std::int64_t kTwiceTheBias = 254;
constexpr double kLowest = -151, kHighest = 129;

bool is_float(Node n, double v) {
  Node c = constant_of(n);
  return c && c.dtype().is_float() && c.const_float() == v;
}
bool is_integer(Node n, std::int64_t v) {
  Node c = constant_of(n);
  return c && c.dtype().is_int() && c.int_attr() == v;
}

// The integer whose bits, moved to the exponent's place, the float has; or null.
Node exponent_of(Node n) {
  if (!n.is(Op::Bitcast) || !n.arg(0).is(Op::Shl) || !is_integer(n.arg(0).arg(1), kMantissa)) return Node();
  return n.arg(0).arg(0);
}

// x < c ? c : x, or c < x ? c : x: the x, or null.
Node clamped(Node n, double c, bool from_below) {
  if (!n.is(Op::Where) || !n.arg(0).is(Op::Less) || !is_float(n.arg(1), c)) return Node();
  Node x = n.arg(2), low = n.arg(0).arg(from_below ? 0 : 1), high = n.arg(0).arg(from_below ? 1 : 0);
  return low == x && is_float(high, c) ? x : Node();
}

// c of c + kRoundsToWhole, or null.
Node before_shift(Node n) {
  if (!n.is(Op::Add)) return Node();
  for (std::size_t i = 0; i < 2; ++i)
    if (is_float(n.arg(i), static_cast<double>(kRoundsToWhole))) return n.arg(1 - i);
  return Node();
}
// x where n is x within [-151, 129], or null.
Node before_limits(Node n) {
  Node below = n ? clamped(n, kHighest, false) : Node();
  return below ? clamped(below, kLowest, true) : Node();
}
bool is_shifted(Node n) { return static_cast<bool>(before_limits(before_shift(n))); }

}  // namespace

Scaling scaling_of(Node product) {
  if (!product.is(Op::Mul) || product.dtype().element() != dtypes::Float32) return {};
  for (std::size_t outer = 0; outer < 2; ++outer) {
    Node second = exponent_of(product.arg(outer)), inner = product.arg(1 - outer);
    if (!second || !second.is(Op::Sub) || !inner.is(Op::Mul)) continue;
    Node exponent = second.arg(0), first = second.arg(1);
    if (!first.is(Op::Shr) || first.arg(0) != exponent || !is_integer(first.arg(1), 1)) continue;
    constexpr auto kZero = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(kRoundsToWhole));
    if (!exponent.is(Op::Sub) || !is_integer(exponent.arg(1), kZero - kTwiceTheBias)) continue;
    Node bits = exponent.arg(0);
    if (!bits.is(Op::Bitcast) || !is_shifted(bits.arg(0))) continue;
    for (std::size_t i = 0; i < 2; ++i)
      if (exponent_of(inner.arg(i)) == first) return {inner.arg(1 - i), bits.arg(0)};
  }
  return {};
}

Node whole_of_fraction(Node difference) {
  if (!difference.is(Op::Sub) || difference.dtype().element() != dtypes::Float32) return Node();
  Node limited = difference.arg(0), whole = difference.arg(1);
  if (!whole.is(Op::Sub) || !is_float(whole.arg(1), static_cast<double>(kRoundsToWhole))) return Node();
  return before_shift(whole.arg(0)) == limited ? before_limits(limited) : Node();
}

Node scaled_by(const Scaling& scaling) { return before_limits(before_shift(scaling.shifted)); }

}  // namespace lathe::render
