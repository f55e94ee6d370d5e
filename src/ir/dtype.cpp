#include "ir/dtype.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace lathe {
namespace {

enum class Kind : std::uint8_t { V, X, B, S, U, F };
struct Row {
  std::string_view text, name;
  Kind kind;
  int bits, rank, exponent, mantissa;
};
using enum Kind;
constexpr std::array kRows = {
#define LATHE_DTYPE(name, text, longname, kind, bits, rank, exp, man) \
  Row{text, longname, Kind::kind, bits, rank, exp, man},
#include "ir/dtypes.def"
#undef LATHE_DTYPE
};

const Row& row(DType d) { return kRows[static_cast<std::size_t>(d.scalar)]; }

}  // namespace

bool DType::is_float() const { return row(*this).kind == Kind::F; }
bool DType::is_int() const {
  Kind k = row(*this).kind;
  return k == Kind::S || k == Kind::U || k == Kind::X;
}
bool DType::is_unsigned() const { return row(*this).kind == Kind::U; }
int DType::bits() const { return row(*this).bits; }
int DType::priority() const { return row(*this).rank; }
std::string_view DType::name() const { return row(*this).name; }
std::string DType::str() const {
  return lanes == 1 ? std::string(row(*this).text) : fmt::format("{}x{}", row(*this).text, lanes);
}

std::int64_t DType::min_int() const {
  const Row& r = row(*this);
  if (r.kind == Kind::U || r.kind == Kind::B) return 0;
  return r.bits >= 64 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << (r.bits - 1));
}
std::int64_t DType::max_int() const {
  const Row& r = row(*this);
  if (r.kind == Kind::B) return 1;
  if (r.bits >= 64) return std::numeric_limits<std::int64_t>::max();
  return (std::int64_t{1} << (r.bits - (r.kind == Kind::U ? 0 : 1))) - 1;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    DType d(static_cast<Scalar>(i));
    if (kRows[i].text == text || kRows[i].name == text) return d;
    std::string_view s = kRows[i].text;
    if (text.size() > s.size() + 1 && text.starts_with(s) && text[s.size()] == 'x') {
      int lanes = 0;
      auto [end, error] = std::from_chars(text.data() + s.size() + 1, text.data() + text.size(), lanes);
      if (error == std::errc() && end == text.data() + text.size() && lanes > 1 && lanes <= 65535)
        return d.vec(static_cast<std::uint16_t>(lanes));
    }
  }
  return std::nullopt;
}

bool widens(DType narrow, DType wide) {
  if (narrow.bits() >= wide.bits()) return false;
  if (narrow.is_float() && wide.is_float()) return true;
  return narrow.is_int() && wide.is_int() && narrow.min_int() >= wide.min_int() &&
         narrow.max_int() <= wide.max_int();
}

DType least_upper_dtype(DType a, DType b) {
  if (a == b) return a;
  if (a.priority() > b.priority()) std::swap(a, b);
  // Now b ranks higher. Floats swallow everything below; two floats of equal width meet one width up.
  if (b.is_float()) {
    if (a.is_float() && a.bits() == b.bits()) return a.bits() == 8 ? dtypes::Float16 : dtypes::Float32;
    return b;
  }
  if (a.is_bool()) return b;
  bool a_unsigned = a.is_unsigned(), b_unsigned = b.is_unsigned();
  if (a_unsigned == b_unsigned) return b;
  DType u = a_unsigned ? a : b, s = a_unsigned ? b : a;
  if (s.bits() > u.bits()) return s;
  switch (u.bits()) {  // a signed type that holds the unsigned one; nothing but float holds all of uint64
    case 8: return dtypes::Int16;
    case 16: return dtypes::Int32;
    case 32: return dtypes::Int64;
    default: return dtypes::Float32;
  }
}

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bfloat16(float value) {
  auto u = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((u >> 16) | 0x40);
  u += 0x7fff + ((u >> 16) & 1);
  return static_cast<std::uint16_t>(u >> 16);
}

namespace {

// A small float format by its field widths. `fnuz`: no infinities, no negative zero, the bits of -0 are the
// one NaN.
struct Small {
  int exponent, mantissa, bias;
  bool infinity;  // the top exponent holds infinity and NaN (IEEE-like)
  bool fnuz;
};

double decode(Small f, std::uint32_t bits) {
  int width = 1 + f.exponent + f.mantissa;
  bool negative = bits >> (width - 1) & 1;
  std::uint32_t e = bits >> f.mantissa & ((1u << f.exponent) - 1), m = bits & ((1u << f.mantissa) - 1);
  double sign = negative ? -1 : 1;
  if (f.fnuz && negative && e == 0 && m == 0) return std::numeric_limits<double>::quiet_NaN();
  if (!f.fnuz && e == (1u << f.exponent) - 1) {
    if (f.infinity)
      return m == 0 ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
    if (m == (1u << f.mantissa) - 1) return std::numeric_limits<double>::quiet_NaN();
  }
  if (e == 0) return sign * std::ldexp(m, 1 - f.bias - f.mantissa);
  return sign * std::ldexp(m + (1u << f.mantissa), static_cast<int>(e) - f.bias - f.mantissa);
}

std::uint32_t encode(Small f, double v) {
  int width = 1 + f.exponent + f.mantissa;
  std::uint32_t sign = std::signbit(v) ? 1u << (width - 1) : 0;
  std::uint32_t top = (1u << f.exponent) - 1, all = (1u << f.mantissa) - 1;
  std::uint32_t nan = f.fnuz       ? 1u << (width - 1)
                      : f.infinity ? (top << f.mantissa) | (1u << (f.mantissa - 1))
                                   : (top << f.mantissa) | all;
  if (std::isnan(v)) return f.fnuz ? nan : sign | nan;
  std::uint32_t overflow = f.fnuz ? nan : f.infinity ? sign | (top << f.mantissa) : sign | nan;
  double a = std::fabs(v);
  if (std::isinf(v)) return overflow;
  if (a == 0) return f.fnuz ? 0 : sign;
  int e = std::max(std::ilogb(a), 1 - f.bias);
  double scaled = std::nearbyint(std::ldexp(a, f.mantissa - e));  // round to nearest even: the default mode
  auto m = static_cast<std::uint64_t>(scaled);
  if (m == (2ull << f.mantissa)) {
    m >>= 1;
    ++e;
  }
  if (m == 0) return f.fnuz ? 0 : sign;
  bool subnormal = m < (1ull << f.mantissa);
  std::uint32_t biased = subnormal ? 0 : static_cast<std::uint32_t>(e + f.bias);
  std::uint32_t fraction = static_cast<std::uint32_t>(m) & all;
  std::uint32_t limit = f.infinity ? top - 1 : top;
  if (biased > limit || (!f.infinity && !f.fnuz && biased == top && fraction == all)) return overflow;
  return sign | biased << f.mantissa | fraction;
}

Small format(Scalar kind) {
  switch (kind) {
    case Scalar::Fp8e4m3: return {4, 3, 7, false, false};
    case Scalar::Fp8e5m2: return {5, 2, 15, true, false};
    case Scalar::Fp8e4m3fnuz: return {4, 3, 8, false, true};
    case Scalar::Fp8e5m2fnuz: return {5, 2, 16, false, true};
    default: return {5, 10, 15, true, false};  // Float16
  }
}

}  // namespace

float half_to_float(std::uint16_t bits) {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, e = bits >> 10 & 31, m = bits & 1023;
  if (e == 0)
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::ldexp(static_cast<float>(m), -24)));
  if (e == 31) return std::bit_cast<float>(sign | 0x7f800000 | m << 13);
  return std::bit_cast<float>(sign | (e + 112) << 23 | m << 13);
}

std::uint16_t float_to_half(float value) {
  auto u = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((u >> 16 & 0x8000) | 0x7e00 | (u >> 13 & 0x3ff));
  return static_cast<std::uint16_t>(encode(format(Scalar::Float16), value));
}

float fp8_to_float(Scalar kind, std::uint8_t bits) { return static_cast<float>(decode(format(kind), bits)); }
std::uint8_t float_to_fp8(Scalar kind, float value) {
  return static_cast<std::uint8_t>(encode(format(kind), value));
}

double round_to(DType dtype, double value) {
  switch (dtype.scalar) {
    case Scalar::Float64: return value;
    case Scalar::Float32: return static_cast<double>(static_cast<float>(value));
    case Scalar::Float16: return half_to_float(float_to_half(static_cast<float>(value)));
    case Scalar::BFloat16: return bfloat16_to_float(float_to_bfloat16(static_cast<float>(value)));
    default: return fp8_to_float(dtype.scalar, float_to_fp8(dtype.scalar, static_cast<float>(value)));
  }
}

}  // namespace lathe
