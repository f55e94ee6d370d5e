// The element types of tensors: dtypes::float32, dtypes::int8, ... A DataType is a row number of the
// library's dtype table: one byte to copy, with all facts looked up in the table. Number is a literal with a
// weak dtype: an integer literal takes the tensor's dtype, and a float literal does too unless the tensor
// holds integers.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace lathe {

enum class Scalar : std::uint8_t;  // row numbers of the dtype table

struct DataType {
  Scalar scalar{};

  constexpr DataType() = default;
  constexpr explicit DataType(Scalar s) : scalar(s) {}
  constexpr bool operator==(const DataType&) const = default;
  bool operator<(DataType other) const;  // by place in the promotion lattice

  std::string_view name() const;  // "float32"
  int itemsize() const;           // bytes of an element
  int bitsize() const;
  char fmt() const;  // the letter of Python's struct module ('f', 'i', ...), or 0 if there is none
  bool is_float() const;
  bool is_int() const;  // signed or unsigned, not bool
  bool is_unsigned() const;
  bool is_bool() const;
};

namespace dtypes {

inline constexpr DataType bool_{Scalar{2}}, int8{Scalar{3}}, uint8{Scalar{4}}, int16{Scalar{5}},
    uint16{Scalar{6}}, int32{Scalar{7}}, uint32{Scalar{8}}, int64{Scalar{9}}, uint64{Scalar{10}},
    fp8e4m3{Scalar{11}}, fp8e5m2{Scalar{12}}, fp8e4m3fnuz{Scalar{13}}, fp8e5m2fnuz{Scalar{14}},
    float16{Scalar{15}}, bfloat16{Scalar{16}}, float32{Scalar{17}}, float64{Scalar{18}};

// C's names, with an underscore after C++ keywords.
inline constexpr DataType char_ = int8, uchar = uint8, short_ = int16, ushort = uint16, int_ = int32,
                          uint = uint32, long_ = int64, ulong = uint64, half = float16, float_ = float32,
                          double_ = float64;

// The dtypes of literals that are not combined with a tensor.
DataType default_float();
DataType default_int();
void set_default_float(DataType dtype);
void set_default_int(DataType dtype);

// Groups of dtypes.
std::span<const DataType> all();
std::span<const DataType> floats();
std::span<const DataType> ints();
std::span<const DataType> sints();
std::span<const DataType> uints();
std::span<const DataType> fp8s();

inline bool is_float(DataType d) { return d.is_float(); }
inline bool is_int(DataType d) { return d.is_int(); }
inline bool is_unsigned(DataType d) { return d.is_unsigned(); }
inline bool is_bool(DataType d) { return d.is_bool(); }

// The dtype of a name: "float32", "f32", "half", "long", ... Throws UserError that suggests the nearest name.
DataType parse(std::string_view name);

}  // namespace dtypes

// A literal. Its dtype is weak: it adapts to the tensor it is combined with.
class Number {
 public:
  enum class Kind : std::uint8_t { Bool, Int, Float };

  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr Number(T v)  // NOLINT: a literal is a number
      : kind_(std::is_same_v<T, bool> ? Kind::Bool
              : std::is_integral_v<T> ? Kind::Int
                                      : Kind::Float),
        int_(static_cast<std::int64_t>(std::is_integral_v<T> ? v : T{})),
        float_(static_cast<double>(v)) {}

  constexpr Kind kind() const { return kind_; }
  constexpr double to_double() const { return float_; }
  constexpr std::int64_t to_int() const {
    return kind_ == Kind::Float ? static_cast<std::int64_t>(float_) : int_;
  }

  // The dtype it has without a tensor: bool, default_int (int64 or uint64 if that is too narrow) or
  // default_float.
  DataType dtype() const;

 private:
  Kind kind_;
  std::int64_t int_;
  double float_;
};

namespace dtypes {

inline DataType from_py(Number literal) { return literal.dtype(); }

// The least and the greatest value of the dtype, -inf and inf for floats: the initial values of max and min.
Number min(DataType dtype);
Number max(DataType dtype);

// Facts of a float dtype: its greatest finite value, the gap above 1, the least normal number, and the widths
// of its fields.
struct FloatInfo {
  double max, eps, smallest_normal;
  int exponent_bits, mantissa_bits;
};
FloatInfo finfo(DataType dtype);

}  // namespace dtypes

// The dtype that two tensors promote to: bool < integers < fp8 < half and bfloat16 < float < double. Signed
// and unsigned integers promote to the next larger size; uint64 with a signed integer, and half with
// bfloat16, promote to float32.
DataType least_upper_dtype(DataType a, DataType b);
// The dtype that a tensor and a literal promote to: the tensor's, except for a float literal with integers or
// an integer literal with bool.
DataType least_upper_dtype(DataType tensor, Number literal);

// The result dtype of float functions (sin, division, mean): the dtype itself, or default_float for integers.
DataType least_upper_float(DataType dtype);
// The dtype in which sums of this dtype accumulate: at least 32 bits.
DataType sum_accumulator(DataType dtype);

}  // namespace lathe
