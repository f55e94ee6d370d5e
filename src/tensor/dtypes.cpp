#include "lathe/dtypes.h"

#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/text.h"
#include "tensor/impl.h"

namespace lathe {

// The public names are row numbers of the dtype table.
static_assert(dtypes::bool_.scalar == Scalar::Bool && dtypes::int8.scalar == Scalar::Int8 &&
              dtypes::uint8.scalar == Scalar::UInt8 && dtypes::int16.scalar == Scalar::Int16 &&
              dtypes::uint16.scalar == Scalar::UInt16 && dtypes::int32.scalar == Scalar::Int32 &&
              dtypes::uint32.scalar == Scalar::UInt32 && dtypes::int64.scalar == Scalar::Int64 &&
              dtypes::uint64.scalar == Scalar::UInt64 && dtypes::fp8e4m3.scalar == Scalar::Fp8e4m3 &&
              dtypes::fp8e5m2.scalar == Scalar::Fp8e5m2 &&
              dtypes::fp8e4m3fnuz.scalar == Scalar::Fp8e4m3fnuz &&
              dtypes::fp8e5m2fnuz.scalar == Scalar::Fp8e5m2fnuz &&
              dtypes::float16.scalar == Scalar::Float16 && dtypes::bfloat16.scalar == Scalar::BFloat16 &&
              dtypes::float32.scalar == Scalar::Float32 && dtypes::float64.scalar == Scalar::Float64);

namespace {

// What only the public side knows of a dtype: C's name for it, and the letter of the struct module.
struct Names {
  DataType dtype;
  std::string_view alias;
  char letter;
};
constexpr Names kNames[] = {
    {dtypes::bool_, "bool", '?'},
    {dtypes::int8, "char", 'b'},
    {dtypes::uint8, "uchar", 'B'},
    {dtypes::int16, "short", 'h'},
    {dtypes::uint16, "ushort", 'H'},
    {dtypes::int32, "int", 'i'},
    {dtypes::uint32, "uint", 'I'},
    {dtypes::int64, "long", 'q'},
    {dtypes::uint64, "ulong", 'Q'},
    {dtypes::fp8e4m3, "fp8e4m3", 0},
    {dtypes::fp8e5m2, "fp8e5m2", 0},
    {dtypes::fp8e4m3fnuz, "fp8e4m3fnuz", 0},
    {dtypes::fp8e5m2fnuz, "fp8e5m2fnuz", 0},
    {dtypes::float16, "half", 'e'},
    {dtypes::bfloat16, "bf16", 0},
    {dtypes::float32, "float", 'f'},
    {dtypes::float64, "double", 'd'},
};
constexpr std::size_t kFirst = static_cast<std::size_t>(Scalar::Bool);

constexpr DataType kAll[] = {dtypes::bool_,       dtypes::int8,    dtypes::uint8,    dtypes::int16,
                             dtypes::uint16,      dtypes::int32,   dtypes::uint32,   dtypes::int64,
                             dtypes::uint64,      dtypes::fp8e4m3, dtypes::fp8e5m2,  dtypes::fp8e4m3fnuz,
                             dtypes::fp8e5m2fnuz, dtypes::float16, dtypes::bfloat16, dtypes::float32,
                             dtypes::float64};
constexpr DataType kSigned[] = {dtypes::int8, dtypes::int16, dtypes::int32, dtypes::int64};
constexpr DataType kUnsigned[] = {dtypes::uint8, dtypes::uint16, dtypes::uint32, dtypes::uint64};

std::atomic<DataType> the_default_float{dtypes::float32};
std::atomic<DataType> the_default_int{dtypes::int32};

// A literal's place below every dtype of its kind.
int weak_rank(Number n) { return static_cast<int>(n.kind()); }

}  // namespace

int dtype_kind(DataType d) { return d.is_bool() ? 0 : d.is_int() ? 1 : 2; }

bool DataType::operator<(DataType other) const {
  return ir_dtype(*this).priority() < ir_dtype(other).priority();
}
std::string_view DataType::name() const { return ir_dtype(*this).name(); }
int DataType::itemsize() const { return ir_dtype(*this).bytes(); }
int DataType::bitsize() const { return is_bool() ? 1 : ir_dtype(*this).bits(); }
char DataType::fmt() const { return kNames[static_cast<std::size_t>(scalar) - kFirst].letter; }
bool DataType::is_float() const { return ir_dtype(*this).is_float(); }
bool DataType::is_int() const { return ir_dtype(*this).is_int(); }
bool DataType::is_unsigned() const { return ir_dtype(*this).is_unsigned(); }
bool DataType::is_bool() const { return ir_dtype(*this).is_bool(); }

DataType Number::dtype() const {
  if (kind_ == Kind::Bool) return dtypes::bool_;
  if (kind_ == Kind::Float) return dtypes::default_float();
  if (int_ < 0 && float_ > 0) return dtypes::uint64;  // beyond int64
  const DataType usual = dtypes::default_int();
  const DType range = ir_dtype(usual);
  return usual == dtypes::uint64 || (int_ >= range.min_int() && int_ <= range.max_int()) ? usual
                                                                                         : dtypes::int64;
}

namespace dtypes {

DataType default_float() { return the_default_float.load(); }
DataType default_int() { return the_default_int.load(); }
void set_default_float(DataType dtype) {
  if (!dtype.is_float())
    throw UserError("default_float", fmt::format("{} is not a float dtype", dtype.name()));
  the_default_float.store(dtype);
}
void set_default_int(DataType dtype) {
  if (!dtype.is_int())
    throw UserError("default_int", fmt::format("{} is not an integer dtype", dtype.name()));
  the_default_int.store(dtype);
}

std::span<const DataType> all() { return kAll; }
std::span<const DataType> ints() { return std::span(kAll).subspan(1, 8); }
std::span<const DataType> fp8s() { return std::span(kAll).subspan(9, 4); }
std::span<const DataType> floats() { return std::span(kAll).subspan(9); }
std::span<const DataType> sints() { return kSigned; }
std::span<const DataType> uints() { return kUnsigned; }

DataType parse(std::string_view name) {
  for (const Names& row : kNames)
    if (row.alias == name) return row.dtype;
  std::optional<DType> found = parse_dtype(name);
  if (found && found->lanes == 1 && found->scalar >= Scalar::Bool) return data_type(*found);
  std::vector<std::string_view> known;
  for (DataType d : kAll) known.push_back(d.name());
  UserError error("dtype", fmt::format("\"{}\" names no dtype", name));
  if (auto near = nearest_word(name, known)) error.help(fmt::format("did you mean {}?", *near));
  throw error;
}

Number min(DataType d) {
  if (d.is_float()) return unit_of(Op::Max, ir_dtype(d)).f;  // some have no infinity
  if (d.is_bool()) return false;
  return ir_dtype(d).min_int();
}
Number max(DataType d) {
  if (d.is_float()) return unit_of(Op::Min, ir_dtype(d)).f;
  if (d.is_bool()) return true;
  if (d == uint64) return std::numeric_limits<std::uint64_t>::max();
  return ir_dtype(d).max_int();
}

namespace {
struct Row {
  DataType dtype;
  FloatInfo info;
};
}  // namespace

FloatInfo finfo(DataType d) {
  static const Row rows[] = {
      {fp8e4m3, {448, 0.125, std::ldexp(1.0, -6), 4, 3}},
      {fp8e5m2, {57344, 0.25, std::ldexp(1.0, -14), 5, 2}},
      {fp8e4m3fnuz, {240, 0.125, std::ldexp(1.0, -7), 4, 3}},
      {fp8e5m2fnuz, {57344, 0.25, std::ldexp(1.0, -15), 5, 2}},
      {float16, {65504, std::ldexp(1.0, -10), std::ldexp(1.0, -14), 5, 10}},
      {bfloat16,
       {std::ldexp(2.0 - std::ldexp(1.0, -7), 127), std::ldexp(1.0, -7), std::ldexp(1.0, -126), 8, 7}},
      {float32, {std::numeric_limits<float>::max(), std::ldexp(1.0, -23), std::ldexp(1.0, -126), 8, 23}},
      {float64, {std::numeric_limits<double>::max(), std::ldexp(1.0, -52), std::ldexp(1.0, -1022), 11, 52}},
  };
  for (const Row& row : rows)
    if (row.dtype == d) return row.info;
  throw UserError("finfo", fmt::format("{} is not a float dtype", d.name()));
}

}  // namespace dtypes

DataType least_upper_dtype(DataType a, DataType b) {
  return data_type(lathe::least_upper_dtype(ir_dtype(a), ir_dtype(b)));
}

DataType least_upper_dtype(DataType tensor, Number literal) {
  return weak_rank(literal) > dtype_kind(tensor) ? literal.dtype() : tensor;
}

DataType least_upper_float(DataType d) { return d.is_float() ? d : dtypes::default_float(); }

DataType sum_accumulator(DataType d) {
  if (d.is_float()) return d.itemsize() < 4 ? dtypes::float32 : d;
  if (d.is_unsigned()) return d.itemsize() < 4 ? dtypes::uint32 : d;
  return d.is_bool() || d.itemsize() < 4 ? dtypes::int32 : d;
}

}  // namespace lathe
