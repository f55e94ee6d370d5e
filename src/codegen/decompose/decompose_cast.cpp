#include "codegen/decompose/decompose_cast.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "codegen/decompose/decompose_parts.h"
#include "ir/float_range.h"

namespace lathe {
namespace {

using namespace decompose_parts;

// A small float with fields of its own (bfloat16 is the upper half of a float32). Codes are bits without the
// sign.
struct Format {
  Scalar scalar;
  int mantissa, bias;
  std::uint32_t largest;   // code of the largest finite value
  std::uint32_t overflow;  // code of what is beyond it: infinity or NaN
  std::uint32_t nan;
  bool negative_zero;    // without one (fnuz), its code is the NaN
  bool signed_overflow;  // infinities have signs; NaN is always the positive one
};
constexpr std::array kFormats = {
    Format{Scalar::Float16, 10, 15, 0x7bff, 0x7c00, 0x7e00, true, true},
    Format{Scalar::Fp8e4m3, 3, 7, 0x7e, 0x7f, 0x7f, true, false},
    Format{Scalar::Fp8e5m2, 2, 15, 0x7b, 0x7c, 0x7e, true, true},
    Format{Scalar::Fp8e4m3fnuz, 3, 8, 0x7f, 0x80, 0x80, false, false},
    Format{Scalar::Fp8e5m2fnuz, 2, 16, 0x7f, 0x80, 0x80, false, false},
};

const Format& format_of(DType dtype) {
  for (const Format& f : kFormats)
    if (f.scalar == dtype.scalar) return f;
  throw InternalError("decompose", std::string(dtype.name()) + " is not a small float");
}

const DType u32 = dtypes::UInt32;
DType storage_of(DType dtype) { return dtype.bits() == 8 ? dtypes::UInt8 : dtypes::UInt16; }
Node word(Node like, std::uint64_t v) { return whole(like, u32, v); }

// The bits of a small float, widened to 32.
Node code_of(Node x) { return cast(bitcast(x, storage_of(x.dtype())), u32); }

Node from_bfloat16(Node x) { return bitcast(shift_left(code_of(x), word(x, 16)), dtypes::Float32); }

// Normal numbers by shifting the code and moving the bias; subnormals are their code times the smallest of
// them.
Node to_float32(Node x) {
  const Format& f = format_of(x.dtype());
  int width = x.dtype().bits();
  Node code = code_of(x);
  Node magnitude = bit_and(code, word(x, (1u << (width - 1)) - 1));
  auto shift = static_cast<std::uint64_t>(23 - f.mantissa);
  Node shifted = shift_left(magnitude, word(x, shift));
  Node normal = bitcast(shifted + word(x, static_cast<std::uint64_t>(127 - f.bias) << 23), dtypes::Float32);
  Node subnormal = cast(cast(magnitude, dtypes::Int32), dtypes::Float32) *
                   real(x, dtypes::Float32, std::ldexp(1.0, 1 - f.bias - f.mantissa));
  Node bits = bitcast(where(less(magnitude, word(x, 1u << f.mantissa)), subnormal, normal), u32);
  Node quiet = word(x, 0x7fc00000);
  if (f.signed_overflow)  // the top exponent: infinity, and NaN with its payload
    bits = where(less(word(x, f.largest), magnitude), bit_or(shifted, word(x, 0x7f800000)), bits);
  Node sign = bit_and(code, word(x, 1u << (width - 1)));
  Node signed_bits = bit_or(bits, shift_left(sign, word(x, static_cast<std::uint64_t>(32 - width))));
  // The NaNs of 8-bit floats have no sign and no payload.
  if (!f.negative_zero)
    signed_bits = where(equal(code, word(x, f.nan)), quiet, signed_bits);
  else if (f.scalar != Scalar::Float16)
    signed_bits =
        where(less(word(x, f.signed_overflow ? f.overflow : f.largest), magnitude), quiet, signed_bits);
  return bitcast(signed_bits, dtypes::Float32);
}

// Adding 0x7fff plus the lowest bit that stays rounds to nearest even and carries into the exponent as it
// should.
Node to_bfloat16(Node x) {
  Node bits = bitcast(x, u32);
  Node upper = shift_right(bits, word(x, 16));
  Node rounded = shift_right(bits + (bit_and(upper, word(x, 1)) + word(x, 0x7fff)), word(x, 16));
  Node code = where(apply(Op::Ne, x, x), bit_or(upper, word(x, 0x40)), rounded);
  return bitcast(cast(code, dtypes::UInt16), dtypes::BFloat16);
}

Node from_float32(Node x, DType to) {
  const Format& f = format_of(to);
  Node bits = bitcast(x, u32);
  Node magnitude = bit_and(bits, word(x, 0x7fffffff));
  auto dropped = static_cast<std::uint64_t>(23 - f.mantissa);
  // Normal results: round at the last bit that stays, then move the bias.
  Node odd = bit_and(shift_right(magnitude, word(x, dropped)), word(x, 1));
  Node rounded = magnitude + (odd + word(x, (1u << (dropped - 1)) - 1));
  Node normal = sub(shift_right(rounded, word(x, dropped)),
                    word(x, static_cast<std::uint64_t>(127 - f.bias) << f.mantissa));
  // Subnormal results: adding 2^23 times the smallest one makes the hardware round to a multiple of it.
  float anchor = std::ldexp(1.0f, 23 + 1 - f.bias - f.mantissa);
  Node anchored = bitcast(magnitude, dtypes::Float32) + real(x, dtypes::Float32, static_cast<double>(anchor));
  Node subnormal = sub(bitcast(anchored, u32), word(x, std::bit_cast<std::uint32_t>(anchor)));
  Node tiny = less(magnitude, word(x, static_cast<std::uint64_t>(128 - f.bias) << 23));
  Node code = where(tiny, subnormal, normal);

  auto sign_shift = static_cast<std::uint64_t>(32 - to.bits());
  Node sign = bit_and(shift_right(bits, word(x, sign_shift)), word(x, 1u << (to.bits() - 1)));
  Node beyond = less(word(x, f.largest), code);
  Node is_nan = less(word(x, 0x7f800000), magnitude);
  Node out;
  if (f.signed_overflow) {
    out = bit_or(where(beyond, word(x, f.overflow), code), sign);
    Node nan = word(x, f.nan);
    if (f.scalar == Scalar::Float16)
      nan = bit_or(bit_or(nan, sign), bit_and(shift_right(magnitude, word(x, dropped)), word(x, 0x3ff)));
    out = where(is_nan, nan, out);
  } else {
    Node signed_code = bit_or(code, sign);
    if (!f.negative_zero) signed_code = where(equal(code, word(x, 0)), code, signed_code);
    out = where(bit_or(beyond, is_nan), word(x, f.nan), signed_code);
  }
  return bitcast(cast(out, storage_of(to)), to);
}

// Toward zero into int32 or int64, saturating; NaN gives 0. The cast itself only sees values that fit.
Node to_signed(Node x, DType to) {
  DType type = x.dtype();
  double limit = std::ldexp(1.0, to.bits() - 1);  // one above the largest result
  double below = type.scalar == Scalar::Float32
                     ? static_cast<double>(std::nextafterf(static_cast<float>(limit), 0.0f))
                     : std::nextafter(limit, 0.0);
  auto n = [&](double v) { return real(x, type, v); };
  FloatRange range = float_range(x);
  const bool may_be_nan = std::exchange(range.may_be_nan, false);
  if (range.fits(to)) return cast(may_be_nan ? where(equal(x, x), x, n(0)) : x, to);
  Node fits = logical_and(less(x, n(limit)), less(n(-limit), x));
  Node inside = cast(where(fits, x, n(0)), to);
  Node lowest = whole(x, to, static_cast<std::uint64_t>(to.min_int()));
  Node highest = whole(x, to, static_cast<std::uint64_t>(to.max_int()));
  return where(less(n(below), x), highest, where(less(x, n(-below)), lowest, inside));
}

// Above int64's range the upper half is reached by subtracting 2^63 first; negative values wrap.
Node to_uint64(Node x) {
  Node half = real(x, x.dtype(), 0x1p63);
  Node fits = less(x, half), above = logical_and(logical_not(fits), equal(x, x));
  Node low = cast(to_signed(where(above, sub(x, half), x), dtypes::Int64), dtypes::UInt64);
  return low + where(above, whole(x, dtypes::UInt64, std::uint64_t{1} << 63), whole(x, dtypes::UInt64, 0));
}

Node float_to_integer(Node x, DType to) {
  switch (to.scalar) {
    case Scalar::Int32:
    case Scalar::Int64:
    case Scalar::Index: return to_signed(x, to);
    case Scalar::UInt32: return cast(to_signed(x, dtypes::Int64), to);
    case Scalar::UInt64: return to_uint64(x);
    default: return cast(to_signed(x, dtypes::Int32), to);
  }
}

}  // namespace

bool is_small_float(DType dtype) { return dtype.is_float() && dtype.bits() < 32; }

Node decompose_cast(Node x, DType to, NativeConversions native) {
  DType from = x.dtype().element();
  to = to.element();
  if (from == to) return x;
  if (is_small_float(from)) {
    Node wide = native.has(from)                  ? cast(x, dtypes::Float32)
                : from.scalar == Scalar::BFloat16 ? from_bfloat16(x)
                                                  : to_float32(x);
    return decompose_cast(wide, to, native);
  }
  if (is_small_float(to)) {
    Node wide = decompose_cast(x, dtypes::Float32, native);
    if (native.has(to)) return cast(wide, to);
    return to.scalar == Scalar::BFloat16 ? to_bfloat16(wide) : from_float32(wide, to);
  }
  if (to.is_bool()) return apply(Op::Ne, x, splat(zero_of(from), x.dtype().lanes));
  if (from.is_float() && to.is_int()) return float_to_integer(x, to);
  return cast(x, to);
}

}  // namespace lathe
