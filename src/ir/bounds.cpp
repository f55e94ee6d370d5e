#include "ir/bounds.h"

#include <algorithm>
#include <limits>

#include "ir/value.h"

namespace lathe {
namespace {

using Wide = __int128;

Interval whole(DType dtype) { return {dtype.min_int(), dtype.max_int()}; }

Interval fit(DType dtype, Wide lo, Wide hi) {
  Interval all = whole(dtype);
  if (lo < all.lo || hi > all.hi) return all;
  return {static_cast<std::int64_t>(lo), static_cast<std::int64_t>(hi)};
}

Interval mul(DType dtype, Interval x, Interval y) {
  Wide a = Wide(x.lo) * y.lo, b = Wide(x.lo) * y.hi, c = Wide(x.hi) * y.lo, d = Wide(x.hi) * y.hi;
  return fit(dtype, std::min({a, b, c, d}), std::max({a, b, c, d}));
}

// Division is monotonic in each operand on each side of zero, so the corners bound it when y keeps one sign.
template <class Divide>
Interval divide(DType dtype, Interval x, Interval y, Divide div) {
  if (y.lo <= 0 && y.hi >= 0) {  // x/0 is 0; magnitudes never grow
    Wide m = std::max(x.lo < 0 ? -Wide(x.lo) : Wide(x.lo), x.hi < 0 ? -Wide(x.hi) : Wide(x.hi));
    return fit(dtype, -m - 1, m);
  }
  if (y.lo == -1 || y.hi == -1) {  // the corner min / -1 overflows
    Wide m = std::max(x.lo < 0 ? -Wide(x.lo) : Wide(x.lo), x.hi < 0 ? -Wide(x.hi) : Wide(x.hi));
    return fit(dtype, -m, m);
  }
  std::int64_t a = div(x.lo, y.lo), b = div(x.lo, y.hi), c = div(x.hi, y.lo), d = div(x.hi, y.hi);
  return {std::min({a, b, c, d}), std::max({a, b, c, d})};
}

Interval floor_mod(DType dtype, Interval x, Interval y) {
  if (y.lo == y.hi && y.lo > 0) {
    std::int64_t c = y.lo;
    if (value::floor_div(x.lo, c) == value::floor_div(x.hi, c))
      return {value::floor_mod(x.lo, c), value::floor_mod(x.hi, c)};
    return {0, c - 1};
  }
  if (y.lo > 0) return {0, x.lo >= 0 ? std::min(x.hi, y.hi - 1) : y.hi - 1};
  return whole(dtype);
}

Interval compare(bool surely, bool never) {
  if (surely) return {1, 1};
  if (never) return {0, 0};
  return {0, 1};
}

std::int64_t mask_above(std::int64_t v) {  // smallest 2^k - 1 >= v, for v >= 0
  std::uint64_t m = static_cast<std::uint64_t>(v);
  for (int s = 1; s < 64; s *= 2) m |= m >> s;
  return static_cast<std::int64_t>(m);
}

Interval scalar_op(Op op, DType dtype, std::span<const Node> args) {
  auto in = [&](std::size_t i) { return Interval{args[i].lo(), args[i].hi()}; };
  bool float_operand = args[0].dtype().is_float();
  if (float_operand && dtype.is_bool() && op != Op::Where) return {0, 1};
  Interval x = in(0), y = args.size() > 1 ? in(1) : x;
  switch (op) {
    case Op::Add:
      if (dtype.is_bool()) return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
      return fit(dtype, Wide(x.lo) + y.lo, Wide(x.hi) + y.hi);
    case Op::Sub: return fit(dtype, Wide(x.lo) - y.hi, Wide(x.hi) - y.lo);
    case Op::Mul: return mul(dtype, x, y);
    case Op::Neg: return fit(dtype, -Wide(x.hi), -Wide(x.lo));
    case Op::FloorDiv: return divide(dtype, x, y, [](auto a, auto b) { return value::floor_div(a, b); });
    case Op::TruncDiv: return divide(dtype, x, y, [](auto a, auto b) { return value::trunc_div(a, b); });
    case Op::FloorMod: return floor_mod(dtype, x, y);
    case Op::TruncMod: return x.lo >= 0 ? floor_mod(dtype, x, y) : whole(dtype);
    case Op::Max: return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
    case Op::Min: return {std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
    case Op::And:
      if (x.lo >= 0 && y.lo >= 0) return {dtype.is_bool() ? x.lo & y.lo : 0, std::min(x.hi, y.hi)};
      if (y.lo >= 0) return {0, y.hi};
      if (x.lo >= 0) return {0, x.hi};
      return whole(dtype);
    case Op::Or:
    case Op::Xor:
      if (x.lo < 0 || y.lo < 0) return whole(dtype);
      return {op == Op::Or ? std::max(x.lo, y.lo) : 0, mask_above(std::max(x.hi, y.hi))};
    case Op::Shl:
      if (y.lo != y.hi || y.lo < 0 || y.lo > 62) return whole(dtype);
      return fit(dtype, Wide(x.lo) << y.lo, Wide(x.hi) << y.lo);
    case Op::Shr:
      if (y.lo != y.hi || y.lo < 0 || y.lo > 62) return x.lo >= 0 ? Interval{0, x.hi} : whole(dtype);
      return {x.lo >> y.lo, x.hi >> y.lo};
    case Op::Less: return compare(x.hi < y.lo, x.lo >= y.hi);
    case Op::Eq: return compare(x.lo == x.hi && y.lo == y.hi && x.lo == y.lo, x.hi < y.lo || y.hi < x.lo);
    case Op::Ne: return compare(x.hi < y.lo || y.hi < x.lo, x.lo == x.hi && y.lo == y.hi && x.lo == y.lo);
    case Op::Where: {
      Interval z = in(2);
      if (x.lo == 1) return y;
      if (x.hi == 0) return z;
      return {std::min(y.lo, z.lo), std::max(y.hi, z.hi)};
    }
    case Op::Not:
      return dtype.is_bool() ? Interval{1 - x.hi, 1 - x.lo} : fit(dtype, -Wide(x.hi) - 1, -Wide(x.lo) - 1);
    default: return whole(dtype);
  }
}

// ---- the column `bounds` of structure_ops.def

namespace rules {

using Args = std::span<const Node>;

Interval any(DType dtype, Args, const Attr&) { return whole(dtype); }
Interval as_first(DType, Args args, const Attr&) { return {args[0].lo(), args[0].hi()}; }
Interval or_zero(DType, Args args, const Attr&) {
  return {std::min<std::int64_t>(args[0].lo(), 0), std::max<std::int64_t>(args[0].hi(), 0)};
}
Interval constant(DType, Args, const Attr& attr) { return {attr.i, attr.i}; }
Interval variable(DType, Args, const Attr& attr) { return {attr.data->ints[0], attr.data->ints[1]}; }
Interval bound(DType, Args args, const Attr&) { return {args[1].lo(), args[1].hi()}; }
Interval counted(DType dtype, Args args, const Attr&) {
  return fit(dtype, 0, std::max<std::int64_t>(args[0].hi() - 1, 0));
}
Interval steps(DType, Args args, const Attr&) { return {0, std::max<std::int64_t>(args[0].hi() - 1, 0)}; }
Interval launch_index(DType dtype, Args, const Attr& attr) {
  const std::int64_t extent = attr.data->ints.empty() ? 0 : attr.data->ints[0];
  return {0, extent == 0 ? whole(dtype).hi : extent - 1};
}
Interval lane_numbers(DType dtype, Args, const Attr&) { return {0, dtype.lanes - 1}; }
Interval converted(DType dtype, Args args, const Attr&) {
  DType from = args[0].dtype();
  if (!from.is_int() && !from.is_bool()) return whole(dtype);
  if (from.scalar == Scalar::UInt64) return whole(dtype);
  if (dtype.is_bool())
    return compare(args[0].lo() > 0 || args[0].hi() < 0, args[0].lo() == 0 && args[0].hi() == 0);
  return fit(dtype, args[0].lo(), args[0].hi());
}
Interval checked(DType, Args args, const Attr&) { return {-1, std::max<std::int64_t>(args[1].hi() - 1, -1)}; }
Interval of_all(DType, Args args, const Attr&) {
  Interval all{args[0].lo(), args[0].hi()};
  for (Node a : args) all = {std::min(all.lo, a.lo()), std::max(all.hi, a.hi())};
  return all;
}
Interval in_table(DType, Args, const Attr& attr) {
  const auto [least, most] = std::minmax_element(attr.data->ints.begin(), attr.data->ints.end());
  return {*least, *most};
}

}  // namespace rules

using BoundsRule = Interval (*)(DType, std::span<const Node>, const Attr&);
constexpr BoundsRule kBounds[] = {
#define LATHE_NODE(name, args, form, group, attribute, limits, operands, dtype, shape, bounds, ...) \
  rules::bounds,
#include "ir/structure_ops.def"
#undef LATHE_NODE
};

}  // namespace

Interval bounds_of(Op op, DType dtype, std::span<const Node> args, const Attr& attr) {
  if (!dtype.is_int() && !dtype.is_bool()) return {0, 0};
  // uint64 holds values above int64's maximum, which an interval of int64 cannot say: an upper end of just
  // that stands for all of them, and only constants below it are known.
  if (dtype.scalar == Scalar::UInt64 && !(op == Op::Const && attr.i >= 0 && attr.i < dtype.max_int()))
    return whole(dtype);
  if (is_scalar_op(op)) return scalar_op(op, dtype, args);
  return kBounds[static_cast<int>(op) - kScalarOps](dtype, args, attr);
}

}  // namespace lathe
