// The element types. Every fact about a dtype (width, kind, limits, names) is a row of dtypes.def; nothing
// else in the tree may switch over dtypes to find one of these facts. `Index` is the type of index arithmetic
// until codegen picks 32 or 64 bits; `Void` belongs to nodes that have no value (stores, sinks).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

enum class Scalar : std::uint8_t {
#define LATHE_DTYPE(name, ...) name,
#include "ir/dtypes.def"
#undef LATHE_DTYPE
};

// A scalar type, or a vector of `lanes` of them (lanes > 1 only in kernels after expansion, and in programs).
struct DType {
  Scalar scalar = Scalar::Void;
  std::uint16_t lanes = 1;

  constexpr DType() = default;
  constexpr DType(Scalar s, std::uint16_t n = 1) : scalar(s), lanes(n) {}  // NOLINT: a scalar is a dtype
  constexpr bool operator==(const DType&) const = default;

  constexpr DType element() const { return {scalar, 1}; }
  constexpr DType vec(std::uint16_t n) const { return {scalar, n}; }

  bool is_float() const;     // float64 .. fp8
  bool is_int() const;       // signed and unsigned integers, and Index; not bool
  bool is_unsigned() const;  // unsigned integers
  bool is_bool() const { return scalar == Scalar::Bool; }
  bool is_index() const { return scalar == Scalar::Index; }
  int bits() const;                         // of one element; bool takes 8
  int bytes() const { return bits() / 8; }  // of one element
  int priority() const;                     // place in the promotion lattice (see least_upper_dtype)
  std::string_view name() const;            // "float32"
  std::string str() const;                  // "f32", or "f32x8" for vectors: the short form of the text IR

  // Limits of the values of integer types, saturated to 64 bits (Index and uint64 end at int64's maximum).
  std::int64_t min_int() const;
  std::int64_t max_int() const;
};

namespace dtypes {
#define LATHE_DTYPE(name, text, ...) inline constexpr DType name{Scalar::name};
#include "ir/dtypes.def"
#undef LATHE_DTYPE
}  // namespace dtypes

// Reads the short form ("f32", "i8x4") or the long one ("float32").
std::optional<DType> parse_dtype(std::string_view text);

// Whether every value of `narrow` is one of `wide`, which has more bits: floats of floats, integers of
// integers.
bool widens(DType narrow, DType wide);

// The dtype that holds values of both, by the common lattice:
// bool < ints (signed and unsigned meet one size up) < fp8 < half, bfloat16 < float < double.
DType least_upper_dtype(DType a, DType b);

// Conversions between the bits of small floats and float; exact upwards, round to nearest even downwards.
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
float bfloat16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);
// 8-bit floats, by dtype: Fp8e4m3 (no infinity, NaN 0x7f), Fp8e5m2 (IEEE-like), and the fnuz forms (one NaN,
// 0x80).
float fp8_to_float(Scalar kind, std::uint8_t bits);
std::uint8_t float_to_fp8(Scalar kind, float value);

// `value` rounded to the nearest value of `dtype` (a float type), as a double: what storing and loading it
// would give.
double round_to(DType dtype, double value);

}  // namespace lathe
