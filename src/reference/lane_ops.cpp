#include "reference/lane_ops.h"

#include <algorithm>
#include <cmath>

#include "ir/build.h"
#include "ir/value.h"
#include "reference/float_rules.h"
#include "reference/lane_products.h"
#include "reference/lane_vectors.h"

namespace lathe::reference {
namespace {

// Whether the value and all corners of the operands' errors give the same infinity or NaN, and no operand may
// be on either side of 0; that value is then `v`.
template <class Rule>
bool special_result(const LaneStep& s, const Lane& at, double a, double b, double c, double& v) {
  auto across_zero = [](double x, double e) { return e > 0 && std::fabs(x) <= e; };
  if (across_zero(at.x, a) || across_zero(at.y, b) || across_zero(at.z, c)) return false;
  auto rounded = [&](double r) {
    return std::fabs(r) >= s.rounding->limit ? round_to(s.from->node.dtype().element(), r) : r;
  };
  const double centre = rounded(Rule::value(at.x, at.y, at.z));
  if (std::isfinite(centre)) return false;
  for (int corner = 0; corner < 8; ++corner) {
    const double sa = corner & 1 ? a : -a, sb = corner & 2 ? b : -b, sc = corner & 4 ? c : -c;
    const double r = rounded(Rule::value(at.x + sa, at.y + sb, at.z + sc));
    if (!(r == centre || (std::isnan(r) && std::isnan(centre)))) return false;
  }
  v = centre;
  return true;
}

// A result that is not finite, may overflow, or comes from something that is open.
template <class Rule>
void special(const LaneStep& s, int i, const Lane& at, double a[2], double b[2], double c[2]) {
  double &l = s.d.l[i], &w = s.d.w[i];
  double& v = s.d.v[i].f;
  const bool open_l = is_open(a[0]) || is_open(b[0]) || is_open(c[0]);
  const bool open_w = is_open(a[1]) || is_open(b[1]) || is_open(c[1]);
  // In one rounding with the addition that follows, a product does not overflow on the way.
  const bool fused = s.may_fuse && std::isfinite(at.x) && std::isfinite(at.y);
  if (!fused && !open_w && special_result<Rule>(s, at, a[1], b[1], c[1], v)) {
    l = w = 0;
  } else if (!fused && !open_l && special_result<Rule>(s, at, a[0], b[0], c[0], v)) {
    l = 0;
    w = kOpen;
  } else {
    const double size = std::fabs(v), limit = s.rounding->limit;
    if (open_l || !(size + l < limit)) l = kOpen;
    if (open_w || !(size + w < limit)) w = kOpen;
  }
}

template <class Rule, int Args, bool Pairs>
void float_op(const LaneStep& s) {
  const double limit = s.rounding->limit, tiny = s.rounding->tiny, chained = *s.chained;
  const double least = tiny * std::ldexp(1.0, s.rounding->precision);
  const int precision = s.rounding->precision;
  for (int i = 0; i < s.n; ++i) {
    const double x = s.x.v[i].f, y = Args > 1 ? s.y.v[i].f : 0, z = Args > 2 ? s.z.v[i].f : 0;
    double a[2] = {s.x.l[i], s.x.w[i]};
    double b[2] = {Args > 1 ? s.y.l[i] : 0, Args > 1 ? s.y.w[i] : 0};
    double c[2] = {Args > 2 ? s.z.l[i] : 0, Args > 2 ? s.z.w[i] : 0};
    double v = Rule::value(x, y, z), low = 0;
    if constexpr (Pairs) {
      low = Rule::low({x, y, z}, {s.x.low[i], Args > 1 ? s.y.low[i] : 0, Args > 2 ? s.z.low[i] : 0}, v);
      normalize(v, low);
    }
    const double size = std::fabs(v);
    double l = Rule::spread(x, y, z, v, a[0], b[0], c[0]), w = Rule::spread(x, y, z, v, a[1], b[1], c[1]);
    if (s.own != 0) {
      const bool exact = a[1] + b[1] + c[1] + std::fabs(low) == 0 && (v == 0 || size >= least) &&
                         Rule::exact(x, y, z, v, precision);
      if (!exact) {
        l += (s.own * (size + l) + tiny) * chained;
        w += s.own * (size + w) + tiny;
      }
    }
    s.d.v[i].f = v;
    s.d.l[i] = l;
    s.d.w[i] = w;
    if constexpr (Pairs) s.d.low[i] = low;
    if (!(size + w < limit)) special<Rule>(s, i, {x, y, z}, a, b, c);
  }
}

// What rounding_of says of whole vectors: fits_precision, and the condition under which it says something.
LaneMask fits(Lanes v, const Rounding& r) {
  const Lanes scaled = v * (static_cast<double>(1ull << (53 - r.precision)) + 1);
  const double least = r.tiny * std::ldexp(1.0, r.precision);
  return (scaled - (scaled - v) == v) & ((v == 0) | (size_of(v) >= least));
}
LaneMask is_exact(const AddRule&, Lanes, Lanes, Lanes v, const Rounding& r) { return fits(v, r); }
LaneMask is_exact(const SubRule&, Lanes, Lanes, Lanes v, const Rounding& r) { return fits(v, r); }
LaneMask is_exact(const MulRule&, Lanes x, Lanes y, Lanes v, const Rounding& r) {
  return fits(v, r) & ((v != 0) | (x == 0) | (y == 0));
}
Lanes value_of(const AddRule&, Lanes x, Lanes y) { return x + y; }
Lanes value_of(const SubRule&, Lanes x, Lanes y) { return x - y; }
Lanes value_of(const MulRule&, Lanes x, Lanes y) { return x * y; }

// float_op of two operands without errors: together with a sum's steps, most of what a sum of products takes.
template <class Rule>
void float_op_of_exact(const LaneStep& s) {
  const Rounding& r = *s.rounding;
  const double chained = *s.chained;
  LaneMask beyond{};
  for (int i = 0; i < s.n; i += kVectorLanes) {
    const Lanes x = lanes_at(s.x.v + i), y = lanes_at(s.y.v + i), v = value_of(Rule(), x, y);
    const Lanes size = size_of(v), w = where(~is_exact(Rule(), x, y, v, r), s.own * size + r.tiny);
    put_lanes(s.d.v + i, v);
    put_lanes(s.d.l + i, w * chained);
    put_lanes(s.d.w + i, w);
    beyond |= ~(size + w < r.limit);
  }
  if (!any(beyond)) return;
  double none[2] = {0, 0};
  for (int i = 0; i < s.n; ++i)
    if (!(std::fabs(s.d.v[i].f) + s.d.w[i] < r.limit))
      special<Rule>(s, i, {s.x.v[i].f, s.y.v[i].f, 0}, none, none, none);
}

template <bool IsMax>
void float_extreme(const LaneStep& s) {
  auto bound = [](double x, double y, double a, double b) {
    if (IsMax ? x - a > y + b : x + a < y - b) return a;
    if (IsMax ? y - b > x + a : y + b < x - a) return b;
    return std::max(a, b);
  };
  for (int i = 0; i < s.n; ++i) {
    const double x = s.x.v[i].f, y = s.y.v[i].f;
    const double l = bound(x, y, s.x.l[i], s.y.l[i]), w = bound(x, y, s.x.w[i], s.y.w[i]);
    const double v = IsMax ? value::max_of(x, y) : value::min_of(x, y);
    if (s.d.low != nullptr) s.d.low[i] = v == x ? s.x.low[i] : s.y.low[i];
    s.d.v[i].f = v;
    s.d.l[i] = l;
    s.d.w[i] = w;
  }
}

// ---- comparisons: a bool whose error is 1 where it may be either

double gap(Cell x, Cell y, bool is_float) {
  if (is_float) return std::fabs(x.f - y.f);
  return std::fabs(static_cast<double>(x.i) - static_cast<double>(y.i));
}
double undecided(double gap, double error) { return error == 0 || gap > error ? 0 : 1; }

template <bool IsFloat>
void comparison(const LaneStep& s) {
  // A value compared with itself: only NaN differs.
  const bool itself = s.x.v == s.y.v;
  for (int i = 0; i < s.n; ++i) {
    const Cell x = s.x.v[i], y = s.y.v[i];
    const double between = gap(x, y, IsFloat);
    double l = undecided(between, s.x.l[i] + s.y.l[i]), w = undecided(between, s.x.w[i] + s.y.w[i]);
    if (itself && !is_open(s.x.l[i])) l = 0;
    if (itself && !is_open(s.x.w[i])) w = 0;
    if constexpr (IsFloat) {
      const Op op = s.from->op;
      s.d.v[i].i = op == Op::Less ? x.f < y.f : op == Op::Eq ? x.f == y.f : x.f != y.f;
    } else {
      s.from->fn(s.d.v + i, &x, &y, nullptr, 1);
    }
    // The only candidate for a maximum is the maximum.
    if (w != 0 && s.clear != nullptr && s.clear[i * s.clear_stride] != 0) {
      s.d.v[i].i = s.from->op == Op::Eq;
      l = w = 0;
    }
    s.d.l[i] = l;
    s.d.w[i] = w;
  }
}

template <bool IsFloat>
void choose(const LaneStep& s) {
  for (int i = 0; i < s.n; ++i) {
    const bool first = s.x.v[i].i != 0;
    const LaneOperand &taken = first ? s.y : s.z, &other = first ? s.z : s.y;
    double l = taken.l[i], w = taken.w[i];
    if (s.x.l[i] + s.x.w[i] != 0) {
      const double apart = distance(s.y.v[i], s.z.v[i], IsFloat);
      if (s.x.l[i] != 0) l = std::max(l, apart + other.l[i]);
      if (s.x.w[i] != 0) w = std::max(w, apart + other.w[i]);
    }
    if (IsFloat && s.d.low != nullptr) s.d.low[i] = taken.low[i];
    s.d.v[i] = taken.v[i];
    s.d.l[i] = l;
    s.d.w[i] = w;
  }
}

// ---- integers that hang on floats

double integer_bound(Op op, bool is_bool, Cell x, Cell y, double a, double b) {
  if (a + b == 0) return 0;
  const double fx = static_cast<double>(x.i), fy = static_cast<double>(y.i);
  const bool is_and = op == Op::And || op == Op::Mul || op == Op::Min;
  const bool is_or = op == Op::Or || op == Op::Add || op == Op::Max;
  if (is_bool && (is_and || is_or)) {
    // A side that is decidedly false (true for or) decides.
    const std::int64_t decides = is_or;
    return (a == 0 && (x.i != 0) == decides) || (b == 0 && (y.i != 0) == decides) ? 0 : 1;
  }
  switch (op) {
    case Op::Add:
    case Op::Sub: return a + b;
    case Op::Mul: return std::fabs(fx) * b + std::fabs(fy) * a + a * b;
    case Op::Max: return fx - a > fy + b ? a : fy - b > fx + a ? b : std::max(a, b);
    case Op::Min: return fx + a < fy - b ? a : fy + b < fx - a ? b : std::max(a, b);
    case Op::Neg: return a;
    case Op::Not: return a;
    case Op::Xor: return is_bool ? 1 : kOpen;
    default: return kOpen;
  }
}

void integer_op(const LaneStep& s) {
  const bool is_bool = s.from->dtype.is_bool(), binary = info(s.from->op).args > 1;
  for (int i = 0; i < s.n; ++i) {
    const Cell x = s.x.v[i], y = binary ? s.y.v[i] : Cell{};
    const double l = integer_bound(s.from->op, is_bool, x, y, s.x.l[i], binary ? s.y.l[i] : 0);
    const double w = integer_bound(s.from->op, is_bool, x, y, s.x.w[i], binary ? s.y.w[i] : 0);
    s.from->fn(s.d.v + i, &x, &y, nullptr, 1);
    s.d.l[i] = l;
    s.d.w[i] = w;
  }
}

void exact_op(const LaneStep& s) { s.from->fn(s.d.v, s.x.v, s.y.v, s.z.v, s.n); }

// ---- conversions

void exact_conversion(const LaneStep& s) {
  const DType from = s.from->from, to = s.from->to;
  if (to.is_index() && from.scalar == Scalar::Int32) {
    std::copy_n(s.x.v, s.n, s.d.v);
    return;
  }
  for (int i = 0; i < s.n; ++i) s.d.v[i] = cell_of(to, convert(to, from, element_of_cell(from, s.x.v[i])));
}

void integer_to_float(const LaneStep& s) {
  const bool is_unsigned = s.from->from.scalar == Scalar::UInt64;
  const Rounding& r = *s.rounding;
  for (int i = 0; i < s.n; ++i) {
    const std::int64_t x = s.x.v[i].i;
    const double v =
        is_unsigned ? static_cast<double>(static_cast<std::uint64_t>(x)) : static_cast<double>(x);
    const double size = std::fabs(v);
    double l = s.x.l[i], w = s.x.w[i];
    if (w != 0 || !fits_precision(v, r.precision)) {
      l += s.own * (size + l);
      w += s.own * (size + w);
    }
    s.d.v[i].f = v;
    s.d.l[i] = l;
    s.d.w[i] = w;
    if (s.d.low != nullptr) s.d.low[i] = 0;
    if (size + w < r.limit) continue;
    if (w < kOpen && size - w >= r.limit) {
      s.d.v[i].f = round_to(s.from->to, v);
      s.d.l[i] = s.d.w[i] = 0;
    } else {
      s.d.l[i] = s.d.w[i] = kOpen;
    }
  }
}

void float_to_integer(const LaneStep& s) {
  const DType to = s.from->to;
  const double least = static_cast<double>(to.min_int()), most = static_cast<double>(to.max_int());
  auto as_integer = [&](double v) { return convert(to, dtypes::Float64, {0, v}).i; };
  auto bound = [&](double v, std::int64_t taken, double e) {
    if (e == 0) return 0.0;
    if (is_open(e)) return kOpen;
    if (to.is_bool()) return std::fabs(v) <= e ? 1.0 : 0.0;
    if (!(v - e > least && v + e < most)) return kOpen;  // it may wrap
    const double at = static_cast<double>(taken);
    return std::max(static_cast<double>(as_integer(v + e)) - at, at - static_cast<double>(as_integer(v - e)));
  };
  for (int i = 0; i < s.n; ++i) {
    const double v = s.x.v[i].f;
    const std::int64_t taken = as_integer(v);
    const double l = bound(v, taken, s.x.l[i]), w = bound(v, taken, s.x.w[i]);
    s.d.v[i].i = taken;
    s.d.l[i] = l;
    s.d.w[i] = w;
  }
}

void integer_to_integer(const LaneStep& s) {
  const DType from = s.from->from, to = s.from->to;
  auto bound = [&](std::int64_t v, double e) {
    if (e == 0 || !to.is_bool() || from.is_bool()) return e;
    return std::fabs(static_cast<double>(v)) <= e ? 1.0 : 0.0;
  };
  for (int i = 0; i < s.n; ++i) {
    const Cell x = s.x.v[i];
    s.d.v[i] = cell_of(to, convert(to, from, element_of_cell(from, x)));
    s.d.l[i] = bound(x.i, s.x.l[i]);
    s.d.w[i] = bound(x.i, s.x.w[i]);
  }
}

void bits(const LaneStep& s) {
  const DType from = s.from->from, to = s.from->to;
  for (int i = 0; i < s.n; ++i) {
    s.d.v[i] = cell_of(to, reinterpret(to, from, element_of_cell(from, s.x.v[i])));
    if (s.d.l == nullptr) continue;
    s.d.l[i] = s.x.l[i] == 0 ? 0 : kOpen;
    s.d.w[i] = s.x.w[i] == 0 ? 0 : kOpen;
    if (s.d.low != nullptr) s.d.low[i] = 0;
  }
}

void copy(const LaneStep& s) {
  std::copy_n(s.x.v, s.n, s.d.v);
  if (s.d.l == nullptr) return;
  std::copy_n(s.x.l, s.n, s.d.l);
  std::copy_n(s.x.w, s.n, s.d.w);
  if (s.d.low != nullptr) std::copy_n(s.x.low, s.n, s.d.low);
}

// ---- sums of floats
//
// In whatever order a device adds n terms, each addition rounds a partial sum that is at most the sum of all
// magnitudes: that is the worst. The likely error takes the partial sums as they are, in REF's order, or as
// they would be in a random one: E s_k^2 = (k/n)^2 s^2 + k (1 - k/n) mean(v^2), summed over k.

// Sums of multiples of this are exact while they are small enough: so are sums of integers.
constexpr double kQuantum = 1.0 / 256;
constexpr double kLeastSquares = 1e-280;
// Where all that can be cut off of a step's products is.
constexpr double kWorstCoarse = 8;

// Between 2^52 and 2^53 doubles are the integers, as they all are beyond.
LaneMask is_whole(Lanes size) { return (size >= 0x1p52) | ((size + 0x1p52) - 0x1p52 == size); }

// Everything but the running value itself.
void sum_planes_step(const LaneStep& s) {
  const Lanes one = Lanes{} + 1;
  for (int i = 0; i < s.n; i += kVectorLanes) {
    const Lanes e = lanes_at(s.y.v + i), w = lanes_at(s.y.w + i), size = size_of(e);
    add_lanes(s.d.l + i, lanes_at(s.y.l + i));
    add_lanes(s.d.w + i, w);
    const LaneMask finite = size < kOpen, inexact = w != 0;
    add_lanes(s.sum.magnitude + i, where(finite, size));
    add_lanes(s.sum.beyond + i, where(~finite, e));
    add_lanes(s.sum.squares + i, e * e);
    add_lanes(s.sum.partial + i, size_of(lanes_at(s.d.v + i)));
    add_lanes(s.sum.terms + i, where((e != 0) | inexact, one));
    add_lanes(s.sum.uneven + i, where(inexact | ~is_whole(size / kQuantum), one));
  }
}

template <bool Pairs>
void sum_step(const LaneStep& s) {
  if constexpr (Pairs) {
    for (int i = 0; i < s.n; ++i) {
      const double e = s.y.v[i].f;
      double total = s.x.v[i].f + e;
      s.d.low[i] += rest_of_sum(s.x.v[i].f, e, total) + s.y.low[i];
      normalize(total, s.d.low[i]);
      s.d.v[i].f = total;
    }
  } else {
    for (int i = 0; i < s.n; i += kVectorLanes)
      put_lanes(s.d.v + i, lanes_at(s.x.v + i) + lanes_at(s.y.v + i));
  }
  sum_planes_step(s);
}

void sum_end(const LaneStep& s) {
  const Rounding& r = *s.rounding;
  const double capacity = std::ldexp(kQuantum, r.precision);
  for (int i = 0; i < s.n; ++i) {
    const double total = s.x.v[i].f, n = s.sum.terms[i], size = s.sum.magnitude[i];
    double &l = s.d.l[i], &w = s.d.w[i];
    const bool exact = s.coarse == 0 && s.sum.uneven[i] == 0 && size <= capacity;
    if (const double beyond = s.sum.beyond[i]; beyond != 0) {
      // Infinite in every order, unless the others overflow to the other side on the way; NaN in any case.
      s.d.v[i].f = beyond;
      const bool certain = !is_open(w) && (std::isnan(beyond) || size + w < r.limit);
      l = w = certain ? 0 : kOpen;
    } else if (!exact && (n > 1 || s.may_flush)) {
      const double lost = n * (s.may_flush ? 2 * kFlushed : r.tiny);  // of each product and each sum
      const double worst = s.own * (n - 1) * (size + w) + s.own * w + lost;
      // Squares that vanish say nothing of the terms.
      const double root = s.sum.squares[i] < kLeastSquares ? size : std::sqrt(s.sum.squares[i]);
      const double random = std::sqrt(n) * std::hypot(total / std::sqrt(3.0), root / std::sqrt(6.0));
      // Bits are cut off towards zero, so that what is lost of sums of one sign adds up.
      const double coarse = s.coarse * (std::fabs(total) + root);
      const double likely =
          kLikely * s.own * std::max(s.sum.partial[i] / std::sqrt(n), random) + s.own * l + lost + coarse;
      l += std::min(likely, worst + coarse);
      w += worst + kWorstCoarse * s.coarse * size;
      if (!(size + w < r.limit)) l = w = kOpen;
    }
    s.sum.magnitude[i] = s.sum.squares[i] = s.sum.partial[i] = s.sum.terms[i] = s.sum.uneven[i] = 0;
    s.sum.beyond[i] = 0;
  }
}

// ---- maxima and minima: beside the value, whether one element was clearly the one

template <bool IsMax>
void extreme_step(const LaneStep& s) {
  const double sign = IsMax ? 1 : -1;
  for (int i = 0; i < s.n; ++i) {
    const double best = sign * s.x.v[i].f, e = sign * s.y.v[i].f;
    const double other = e > best ? best + s.x.w[i] : e + s.y.w[i];
    s.sum.second[i] = s.sum.terms[i] == 0 ? -kOpen : std::max(s.sum.second[i], other);
    s.sum.terms[i] += 1;
  }
  float_extreme<IsMax>(s);
}

template <bool IsMax>
void extreme_end(const LaneStep& s) {
  const double sign = IsMax ? 1 : -1;
  for (int i = 0; i < s.n; ++i) {
    s.sum.clear[i] = s.sum.second[i] < sign * s.x.v[i].f - s.x.w[i];
    s.sum.terms[i] = 0;
  }
}

void nothing(const LaneStep&) {}

LaneFn reduce_end(Node reduce) {
  if (!reduce.dtype().is_float()) return nothing;
  switch (reduce_op(reduce)) {
    case Op::Add: return sum_end;
    case Op::Mul: return product_end;
    case Op::Max: return extreme_end<true>;
    case Op::Min: return extreme_end<false>;
    default: return nothing;
  }
}

template <bool Pairs>
LaneFn float_function(Op op) {
  switch (op) {
    case Op::Add: return float_op<AddRule, 2, Pairs>;
    case Op::Sub: return float_op<SubRule, 2, Pairs>;
    case Op::Mul: return float_op<MulRule, 2, Pairs>;
    case Op::Div: return float_op<DivRule, 2, Pairs>;
    case Op::Fma: return float_op<FmaRule, 3, Pairs>;
    case Op::Recip: return float_op<RecipRule, 1, Pairs>;
    case Op::Sqrt: return float_op<SqrtRule, 1, Pairs>;
    case Op::Exp2: return float_op<Exp2Rule, 1, Pairs>;
    case Op::Log2: return float_op<Log2Rule, 1, Pairs>;
    case Op::Sin: return float_op<SinRule, 1, Pairs>;
    case Op::Cos: return float_op<CosRule, 1, Pairs>;
    case Op::Floor: return float_op<FloorRule, 1, Pairs>;
    case Op::Trunc: return float_op<TruncRule, 1, Pairs>;
    case Op::Neg: return float_op<NegRule, 1, Pairs>;
    case Op::Max: return float_extreme<true>;
    case Op::Min: return float_extreme<false>;
    case Op::Less:
    case Op::Eq:
    case Op::Ne: return comparison<true>;
    case Op::Where: return choose<true>;
    default: return nullptr;
  }
}

// Of the commonest ops, where neither operand carries an error: products of what was loaded.
LaneFn exact_float_function(Op op) {
  switch (op) {
    case Op::Add: return float_op_of_exact<AddRule>;
    case Op::Sub: return float_op_of_exact<SubRule>;
    case Op::Mul: return float_op_of_exact<MulRule>;
    default: return nullptr;
  }
}

LaneFn scalar_lane_function(const Step& s, bool bounded, bool exact_operands, bool pairs) {
  if (s.dtype.is_float()) {
    if (s.carries && s.op == Op::Add) return pairs ? sum_step<true> : sum_step<false>;
    if (s.carries && s.op == Op::Mul) return product_step(pairs);
    if (s.carries && s.op == Op::Max) return extreme_step<true>;
    if (s.carries && s.op == Op::Min) return extreme_step<false>;
    if (pairs) return float_function<true>(s.op);
    if (const LaneFn fn = exact_operands ? exact_float_function(s.op) : nullptr) return fn;
    return float_function<false>(s.op);
  }
  if (!bounded) return exact_op;
  if (s.op == Op::Where) return choose<false>;
  if (info(s.op).result == ResultKind::Boolean) return comparison<false>;
  return integer_op;
}

LaneFn conversion_function(const Step& s, bool bounded, bool pairs) {
  if (!bounded) return exact_conversion;
  if (s.to.is_float() && !s.from.is_float()) return integer_to_float;
  if (s.to.is_float()) return pairs ? float_op<RoundRule, 1, true> : float_op<RoundRule, 1, false>;
  return s.from.is_float() ? float_to_integer : integer_to_integer;
}

}  // namespace

LaneFn lane_function(const Step& s, bool bounded, bool exact_operands, bool pairs) {
  switch (s.act) {
    case Act::Scalar: return scalar_lane_function(s, bounded, exact_operands, pairs);
    case Act::Convert: return conversion_function(s, bounded, pairs);
    case Act::Bits: return bits;
    case Act::Copy: return copy;
    case Act::ReduceEnd: return reduce_end(s.node);
    default: return nullptr;
  }
}

void flushing_conversion(const LaneStep& s) {
  for (int i = 0; i < s.n; ++i) {
    const double v = s.x.v[i].f, size = std::fabs(v) < kFlushed ? std::fabs(v) : 0;
    s.d.v[i].f = v;
    s.d.l[i] = std::max(s.x.l[i], size);
    s.d.w[i] = std::max(s.x.w[i], size);
    if (s.d.low != nullptr) s.d.low[i] = s.x.low[i];
  }
}

double distance(Cell x, Cell y, bool is_float) {
  if (!is_float) return gap(x, y, false);
  if (x.f == y.f || (std::isnan(x.f) && std::isnan(y.f))) return 0;
  const double d = std::fabs(x.f - y.f);
  return std::isnan(d) ? kOpen : d;
}

double coarse_error(std::span<const OpError> native) {
  double error = 0;
  for (const OpError& own : native)
    if (own.op == Op::PanelDot) error = 2 * own.ulp * rounding_of(dtypes::Float32).unit;
  return error;
}

double own_error(Op op, DType dtype, std::span<const OpError> native) {
  const Rounding& r = rounding_of(dtype);
  double error = error_of(op);
  for (const OpError& own : native)
    if (own.op == op && dtype.bits() <= 32) error = own.ulp;
  // Small floats are computed in a wider one and rounded once more.
  if (error == 0) return 0;
  if (r.wide_unit > 0) return r.unit + 2 * error * r.wide_unit;
  return 2 * error * r.unit;
}

}  // namespace lathe::reference
