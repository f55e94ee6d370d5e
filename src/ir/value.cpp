#include "ir/value.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace lathe {
namespace {

using namespace value;  // the helpers the `value` column names

template <class T>
T eval(Op op, T x, T y, T z, bool& boolean_result, bool& boolean) {
  (void)z;
  switch (op) {
#define IS_I (std::is_integral_v<T> && !std::is_same_v<T, bool>)
#define IS_F std::is_floating_point_v<T>
#define IS_B std::is_same_v<T, bool>
#define DOM_I IS_I
#define DOM_F IS_F
#define DOM_IF (IS_I || IS_F)
#define DOM_IB (IS_I || IS_B)
#define DOM_IFB true
#define LATHE_OP(name, args, result, domain, traits, u, val, ...)                  \
  case Op::name:                                                                   \
    if constexpr (DOM_##domain && ResultKind::result == ResultKind::Boolean) {     \
      boolean = true;                                                              \
      boolean_result = static_cast<bool>(val);                                     \
      return T();                                                                  \
    } else if constexpr (DOM_##domain && ResultKind::result == ResultKind::Same) { \
      return static_cast<T>(val);                                                  \
    } else {                                                                       \
      break;                                                                       \
    }
#include "ir/ops.def"
#undef LATHE_OP
    default: break;
  }
  throw InternalError("evaluate", std::string(info(op).name) + " is not defined on this dtype");
}

template <class T>
Element run(Op op, Element x, Element y, Element z) {
  bool flag = false, boolean = false;
  Element out;
  if constexpr (std::is_floating_point_v<T>) {
    T r = eval<T>(op, static_cast<T>(x.f), static_cast<T>(y.f), static_cast<T>(z.f), flag, boolean);
    out.f = static_cast<double>(r);
  } else {
    T r = eval<T>(op, static_cast<T>(x.i), static_cast<T>(y.i), static_cast<T>(z.i), flag, boolean);
    out.i = static_cast<std::int64_t>(r);
  }
  if (boolean) out = {flag ? 1 : 0, 0};
  return out;
}

}  // namespace

Element evaluate(Op op, DType operand, Element x, Element y, Element z) {
  if (op == Op::Where) return x.i != 0 ? y : z;
  switch (operand.scalar) {
    case Scalar::Bool: return run<bool>(op, x, y, z);
    case Scalar::Int8: return run<std::int8_t>(op, x, y, z);
    case Scalar::UInt8: return run<std::uint8_t>(op, x, y, z);
    case Scalar::Int16: return run<std::int16_t>(op, x, y, z);
    case Scalar::UInt16: return run<std::uint16_t>(op, x, y, z);
    case Scalar::Int32: return run<std::int32_t>(op, x, y, z);
    case Scalar::UInt32: return run<std::uint32_t>(op, x, y, z);
    case Scalar::Index:
    case Scalar::Int64: return run<std::int64_t>(op, x, y, z);
    case Scalar::UInt64: return run<std::uint64_t>(op, x, y, z);
    case Scalar::Float64: return run<double>(op, x, y, z);
    case Scalar::Float32: return run<float>(op, x, y, z);
    case Scalar::Void: throw InternalError("evaluate", "a void operand");
    default: {  // small floats compute in float and round
      Element out = run<float>(op, x, y, z);
      out.f = round_to(operand, out.f);
      return out;
    }
  }
}

std::int64_t wrap(DType dtype, std::int64_t v) {
  switch (dtype.scalar) {
    case Scalar::Bool: return v != 0;
    case Scalar::Int8: return static_cast<std::int8_t>(v);
    case Scalar::UInt8: return static_cast<std::uint8_t>(v);
    case Scalar::Int16: return static_cast<std::int16_t>(v);
    case Scalar::UInt16: return static_cast<std::uint16_t>(v);
    case Scalar::Int32: return static_cast<std::int32_t>(v);
    case Scalar::UInt32: return static_cast<std::uint32_t>(v);
    default: return v;
  }
}

Element convert(DType to, DType from, Element x) {
  Element out;
  if (to.is_float()) {
    if (from.is_float())
      out.f = round_to(to, x.f);
    else if (from.scalar == Scalar::UInt64) {
      auto u = static_cast<std::uint64_t>(x.i);
      out.f = to.scalar == Scalar::Float64   ? static_cast<double>(u)
              : to.scalar == Scalar::Float32 ? static_cast<double>(static_cast<float>(u))
                                             : round_to(to, static_cast<double>(static_cast<float>(u)));
    } else {
      out.f = to.scalar == Scalar::Float64   ? static_cast<double>(x.i)
              : to.scalar == Scalar::Float32 ? static_cast<double>(static_cast<float>(x.i))
                                             : round_to(to, static_cast<double>(static_cast<float>(x.i)));
    }
    return out;
  }
  if (to.is_bool()) {
    out.i = from.is_float() ? (x.f != 0) : (x.i != 0);
    return out;
  }
  if (!from.is_float()) {
    out.i = wrap(to, x.i);
    return out;
  }
  switch (to.scalar) {
    case Scalar::Int32: out.i = saturate<std::int32_t>(x.f); break;
    case Scalar::Index:
    case Scalar::Int64: out.i = saturate<std::int64_t>(x.f); break;
    case Scalar::UInt32: out.i = wrap(to, saturate<std::int64_t>(x.f)); break;
    case Scalar::UInt64:
      out.i = x.f < 0 ? saturate<std::int64_t>(x.f) : static_cast<std::int64_t>(saturate<std::uint64_t>(x.f));
      break;
    default: out.i = wrap(to, saturate<std::int32_t>(x.f)); break;
  }
  return out;
}

namespace {

std::uint64_t bits_of(DType dtype, Element x) {
  switch (dtype.scalar) {
    case Scalar::Float64: return std::bit_cast<std::uint64_t>(x.f);
    case Scalar::Float32: return std::bit_cast<std::uint32_t>(static_cast<float>(x.f));
    case Scalar::Float16: return float_to_half(static_cast<float>(x.f));
    case Scalar::BFloat16: return float_to_bfloat16(static_cast<float>(x.f));
    default:
      if (dtype.is_float()) return float_to_fp8(dtype.scalar, static_cast<float>(x.f));
      return static_cast<std::uint64_t>(x.i);
  }
}

}  // namespace

Element reinterpret(DType to, DType from, Element x) {
  std::uint64_t bits = bits_of(from, x);
  Element out;
  switch (to.scalar) {
    case Scalar::Float64: out.f = std::bit_cast<double>(bits); break;
    case Scalar::Float32: out.f = std::bit_cast<float>(static_cast<std::uint32_t>(bits)); break;
    case Scalar::Float16: out.f = half_to_float(static_cast<std::uint16_t>(bits)); break;
    case Scalar::BFloat16: out.f = bfloat16_to_float(static_cast<std::uint16_t>(bits)); break;
    default:
      if (to.is_float())
        out.f = fp8_to_float(to.scalar, static_cast<std::uint8_t>(bits));
      else
        out.i = to.is_bool() ? (bits & 0xff) != 0 : wrap(to, static_cast<std::int64_t>(bits));
  }
  return out;
}

Element unit_of(Op op, DType dtype) {
  Element out;
  double inf = std::numeric_limits<double>::infinity();
  switch (info(op).unit) {
    case UnitKind::Zero: return out;
    case UnitKind::One:
      out.i = 1;
      out.f = 1;
      return out;
    case UnitKind::Ones: out.i = dtype.is_bool() ? 1 : wrap(dtype, -1); return out;
    case UnitKind::Low:
      out.i = dtype.is_bool() ? 0 : dtype.min_int();
      out.f = dtype.is_float() ? round_to(dtype, -inf) : 0;
      if (dtype.is_float() && out.f != out.f)
        out.f = dtype.scalar == Scalar::Fp8e5m2fnuz ? -57344 : dtype.scalar == Scalar::Fp8e4m3 ? -448 : -240;
      return out;
    case UnitKind::High:
      out.i = dtype.is_bool() ? 1 : dtype.scalar == Scalar::UInt64 ? -1 : dtype.max_int();
      out.f = dtype.is_float() ? round_to(dtype, inf) : 0;
      if (dtype.is_float() && out.f != out.f)
        out.f = dtype.scalar == Scalar::Fp8e5m2fnuz ? 57344 : dtype.scalar == Scalar::Fp8e4m3 ? 448 : 240;
      return out;
    case UnitKind::None: break;
  }
  throw InternalError("unit_of", std::string(info(op).name) + " is not a reduction");
}

}  // namespace lathe
