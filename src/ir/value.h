// The values of scalar ops, as C++ on one element type: the `value` column of ops.def in executable form.
// Shared by constant folding and REF, and pinned by golden values. Integers wrap; division by zero gives 0;
// shifting out gives 0 (or the sign); comparisons with NaN are false; max and min pass NaN on.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

#include "ir/dtype.h"
#include "ir/op.h"

namespace lathe::value {

// Integers are computed as unsigned so that overflow wraps in C++ too.
template <class T>
constexpr auto as_unsigned(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return static_cast<unsigned>(x);
  else
    return static_cast<std::make_unsigned_t<T>>(x);
}

template <class T>
constexpr T add(T x, T y) {
  if constexpr (std::is_same_v<T, bool>)
    return x || y;
  else if constexpr (std::is_integral_v<T>)
    return T(as_unsigned(x) + as_unsigned(y));
  else
    return x + y;
}
template <class T>
constexpr T sub(T x, T y) {
  if constexpr (std::is_integral_v<T>)
    return T(as_unsigned(x) - as_unsigned(y));
  else
    return x - y;
}
template <class T>
constexpr T mul(T x, T y) {
  if constexpr (std::is_same_v<T, bool>)
    return x && y;
  else if constexpr (std::is_integral_v<T>)
    return T(std::uint64_t(as_unsigned(x)) * std::uint64_t(as_unsigned(y)));
  else
    return x * y;
}
template <class T>
constexpr T neg_of(T x) {
  if constexpr (std::is_integral_v<T>)
    return T(0 - as_unsigned(x));
  else
    return -x;
}
template <class T>
constexpr T not_of(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return !x;
  else
    return T(~x);
}
template <class T>
constexpr T trunc_div(T x, T y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (y == T(-1)) return neg_of(x);
  return T(x / y);
}
template <class T>
constexpr T trunc_mod(T x, T y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (y == T(-1)) return 0;
  return T(x % y);
}
template <class T>
constexpr T floor_div(T x, T y) {
  T q = trunc_div(x, y);
  if constexpr (std::is_signed_v<T>)
    if (y != 0 && trunc_mod(x, y) != 0 && ((x < 0) != (y < 0))) q = T(q - 1);
  return q;
}
template <class T>
constexpr T floor_mod(T x, T y) {
  T r = trunc_mod(x, y);
  if constexpr (std::is_signed_v<T>)
    if (r != 0 && ((r < 0) != (y < 0))) r = T(r + y);
  return r;
}
template <class T>
constexpr T max_of(T x, T y) {
  return (x != x || x > y) ? x : y;  // NOLINT(misc-redundant-expression): asks for NaN
}
template <class T>
constexpr T min_of(T x, T y) {
  return (x != x || x < y) ? x : y;  // NOLINT(misc-redundant-expression): asks for NaN
}
template <class T>
constexpr T shift_left(T x, T y) {
  auto n = as_unsigned(y);
  return n >= sizeof(T) * 8 ? T(0) : T(as_unsigned(x) << n);
}
template <class T>
constexpr T shift_right(T x, T y) {
  auto n = as_unsigned(y);
  if (n >= sizeof(T) * 8) return x < 0 ? T(-1) : T(0);
  return T(x >> n);
}

// Float to integer: toward zero and saturating, NaN gives 0.
template <class I>
constexpr I saturate(double v) {
  if (!(v == v)) return 0;
  if (v <= static_cast<double>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (v >= static_cast<double>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return static_cast<I>(v);
}

}  // namespace lathe::value

namespace lathe {

// One element of any dtype. Integers, bool and index live in `i` (uint64 by its bits), floats in `f`.
struct Element {
  std::int64_t i = 0;
  double f = 0;
};

// The value of a scalar op on elements of `operand` dtype (the second operand's for Where), rounded to that
// dtype.
Element evaluate(Op op, DType operand, Element x, Element y = {}, Element z = {});

// The conversion rules of Cast: floats round to nearest even (and overflow to infinity, or NaN where there is
// none); float to 8 and 16-bit integers goes through int32, to uint32 through int64, each saturating, then
// wraps; integers wrap; anything to bool asks "not zero".
Element convert(DType to, DType from, Element x);

// The same bits read as another dtype of the same width.
Element reinterpret(DType to, DType from, Element x);

// The neutral element of a reduction by `op`.
Element unit_of(Op op, DType dtype);

// Wraps an integer to the range of its dtype.
std::int64_t wrap(DType dtype, std::int64_t v);

}  // namespace lathe
