#include "ir/float_range.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/build.h"

namespace lathe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kDeepest = 8;  // expressions are looked into so far

FloatRange anything() { return {-kInfinity, kInfinity, true}; }

FloatRange range_of(Node x, int depth);

// The next number of the dtype on the way to `toward`.
double next(DType dtype, double v, double toward) {
  return dtype.scalar == Scalar::Float64
             ? std::nextafter(v, toward)
             : static_cast<double>(std::nextafterf(static_cast<float>(v), static_cast<float>(toward)));
}

// The range of x where a condition about it holds.
void narrow_by(Node condition, Node x, FloatRange& range) {
  if (condition.is(Op::And)) {
    narrow_by(condition.arg(0), x, range);
    narrow_by(condition.arg(1), x, range);
    return;
  }
  if (condition.is(Op::Eq) && condition.arg(0) == x && condition.arg(1) == x) range.may_be_nan = false;
  if (!condition.is(Op::Less)) return;
  const bool below = condition.arg(0) == x, above = condition.arg(1) == x;
  Node limit = below ? constant_of(condition.arg(1)) : above ? constant_of(condition.arg(0)) : Node();
  if (!limit) return;
  const double v = limit.const_float();
  if (std::isnan(v)) return;
  range.may_be_nan = false;
  if (below) range.hi = std::min(range.hi, next(x.dtype(), v, -kInfinity));
  if (above) range.lo = std::max(range.lo, next(x.dtype(), v, kInfinity));
}

FloatRange chosen(Node where, int depth) {
  Node condition = where.arg(0), x = where.arg(1), y = where.arg(2);
  FloatRange a = range_of(x, depth), b = range_of(y, depth);
  narrow_by(condition, x, a);
  if (condition.is(Op::Ne) && condition.arg(0) == y && condition.arg(1) == y) b.may_be_nan = false;
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), a.may_be_nan || b.may_be_nan};
}

// Sums are rounded to the dtype, which moves an end by no more than a part in 2^20.
FloatRange sum(const FloatRange& a, double lo, double hi, bool nan) {
  const auto wider = [](double v, double by) { return v + by * std::abs(v) * 0x1p-20; };
  const double least = a.lo + lo, most = a.hi + hi;
  if (!std::isfinite(least) || !std::isfinite(most)) return anything();
  return {wider(least, -1), wider(most, 1), a.may_be_nan || nan};
}

FloatRange range_of(Node x, int depth) {
  if (Node c = constant_of(x)) {
    const double v = c.const_float();
    return std::isnan(v) ? anything() : FloatRange{v, v, false};
  }
  if (depth == 0) return anything();
  switch (x.op()) {
    case Op::Max:
    case Op::Min: {
      const FloatRange a = range_of(x.arg(0), depth - 1), b = range_of(x.arg(1), depth - 1);
      const bool nan = a.may_be_nan || b.may_be_nan;
      if (x.is(Op::Max)) return {std::max(a.lo, b.lo), std::max(a.hi, b.hi), nan};
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi), nan};
    }
    case Op::Add:
    case Op::Sub: {
      const FloatRange a = range_of(x.arg(0), depth - 1), b = range_of(x.arg(1), depth - 1);
      return x.is(Op::Add) ? sum(a, b.lo, b.hi, b.may_be_nan) : sum(a, -b.hi, -b.lo, b.may_be_nan);
    }
    case Op::Neg: {
      const FloatRange a = range_of(x.arg(0), depth - 1);
      return {-a.hi, -a.lo, a.may_be_nan};
    }
    case Op::Where: return chosen(x, depth - 1);
    default: return anything();
  }
}

}  // namespace

bool FloatRange::fits(DType integer) const {
  const double limit = std::ldexp(1.0, integer.bits() - 1);
  return !may_be_nan && -limit <= lo && hi < limit;
}

FloatRange float_range(Node x) {
  const Scalar scalar = x.dtype().scalar;
  return scalar == Scalar::Float32 || scalar == Scalar::Float64 ? range_of(x, kDeepest) : anything();
}

}  // namespace lathe
