#include "reference/scalar.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace lathe::reference {
namespace {

using namespace value;  // the helpers the `value` column names

template <class T>
T take(Cell c) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(c.f);
  else
    return static_cast<T>(c.i);
}
template <class T>
Cell give(T v) {
  Cell c;
  if constexpr (std::is_floating_point_v<T>)
    c.f = static_cast<double>(v);
  else
    c.i = static_cast<std::int64_t>(v);
  return c;
}

// A float that is computed in `float` and rounded to a smaller format.
template <Scalar Kind>
struct Rounded {};

template <class T>
struct Compute {
  using Type = T;
  static Cell round(T v) { return give(v); }
};
template <Scalar Kind>
struct Compute<Rounded<Kind>> {
  using Type = float;
  static Cell round(float v) { return give(round_to(DType(Kind), static_cast<double>(v))); }
};

template <class E>
constexpr bool kIsInt = std::is_integral_v<E> && !std::is_same_v<E, bool>;
template <class E>
constexpr bool kIsBool = std::is_same_v<E, bool>;
template <class E>
constexpr bool kIsFloat = !std::is_integral_v<E>;

#define DOM_I kIsInt<E>
#define DOM_F kIsFloat<E>
#define DOM_IF (kIsInt<E> || kIsFloat<E>)
#define DOM_IB (kIsInt<E> || kIsBool<E>)
#define DOM_IFB true

#define LATHE_OP(name, args, result, domain, traits, unit, val, ...)                      \
  template <class E>                                                                      \
  void run_##name(Cell* out, const Cell* xs, const Cell* ys, const Cell* zs, int lanes) { \
    using T = typename Compute<E>::Type;                                                  \
    for (int lane = 0; lane < lanes; ++lane) {                                            \
      [[maybe_unused]] const T x = take<T>(xs[lane]);                                     \
      [[maybe_unused]] const T y = (args) > 1 ? take<T>(ys[lane]) : T();                  \
      [[maybe_unused]] const T z = (args) > 2 ? take<T>(zs[lane]) : T();                  \
      if constexpr (!(DOM_##domain) || ResultKind::result == ResultKind::Second)          \
        continue;                                                                         \
      else if constexpr (ResultKind::result == ResultKind::Boolean)                       \
        out[lane] = give(static_cast<bool>(val));                                         \
      else                                                                                \
        out[lane] = Compute<E>::round(static_cast<T>(val));                               \
    }                                                                                     \
  }
#include "ir/ops.def"
#undef LATHE_OP

// The condition is bool whatever the others are, and the chosen value passes unchanged.
void choose(Cell* out, const Cell* xs, const Cell* ys, const Cell* zs, int lanes) {
  for (int lane = 0; lane < lanes; ++lane) out[lane] = xs[lane].i != 0 ? ys[lane] : zs[lane];
}

template <class E>
ScalarFn pick(Op op) {
  switch (op) {
#define LATHE_OP(name, args, result, domain, ...) \
  case Op::name: return (DOM_##domain) ? &run_##name<E> : nullptr;
#include "ir/ops.def"
#undef LATHE_OP
    default: return nullptr;
  }
}

ScalarFn pick(Op op, Scalar scalar) {
  switch (scalar) {
    case Scalar::Bool: return pick<bool>(op);
    case Scalar::Int8: return pick<std::int8_t>(op);
    case Scalar::UInt8: return pick<std::uint8_t>(op);
    case Scalar::Int16: return pick<std::int16_t>(op);
    case Scalar::UInt16: return pick<std::uint16_t>(op);
    case Scalar::Int32: return pick<std::int32_t>(op);
    case Scalar::UInt32: return pick<std::uint32_t>(op);
    case Scalar::Index:
    case Scalar::Int64: return pick<std::int64_t>(op);
    case Scalar::UInt64: return pick<std::uint64_t>(op);
    case Scalar::Float64: return pick<double>(op);
    case Scalar::Float32: return pick<float>(op);
    case Scalar::Float16: return pick<Rounded<Scalar::Float16>>(op);
    case Scalar::BFloat16: return pick<Rounded<Scalar::BFloat16>>(op);
    case Scalar::Fp8e4m3: return pick<Rounded<Scalar::Fp8e4m3>>(op);
    case Scalar::Fp8e5m2: return pick<Rounded<Scalar::Fp8e5m2>>(op);
    case Scalar::Fp8e4m3fnuz: return pick<Rounded<Scalar::Fp8e4m3fnuz>>(op);
    case Scalar::Fp8e5m2fnuz: return pick<Rounded<Scalar::Fp8e5m2fnuz>>(op);
    case Scalar::Void: break;
  }
  return nullptr;
}

}  // namespace

ScalarFn scalar_function(Op op, DType operand) {
  ScalarFn fn = op == Op::Where ? choose : pick(op, operand.scalar);
  if (fn == nullptr)
    throw InternalError("reference", std::string(info(op).name) + " is not defined on " + operand.str());
  return fn;
}

Cell reduce_lanes(ScalarFn fn, const Cell* x, int lanes, Cell* scratch) {
  std::copy(x, x + lanes, scratch);
  if ((lanes & (lanes - 1)) == 0) {
    for (int half = lanes / 2; half >= 1; half /= 2) fn(scratch, scratch, scratch + half, nullptr, half);
  } else {
    for (int lane = 1; lane < lanes; ++lane) fn(scratch, scratch, scratch + lane, nullptr, 1);
  }
  return scratch[0];
}

}  // namespace lathe::reference
