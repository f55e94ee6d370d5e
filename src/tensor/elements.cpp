#include "tensor/elements.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace lathe {
namespace {

template <class T>
T read(const void* data, std::size_t i) {
  T v;
  std::memcpy(&v, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
  return v;
}
template <class T>
void write(void* data, std::size_t i, T v) {
  std::memcpy(static_cast<std::byte*>(data) + i * sizeof(T), &v, sizeof(T));
}
template <class T>
Element whole(const void* data, std::size_t i) {
  return {static_cast<std::int64_t>(read<T>(data, i)), 0};
}

}  // namespace

Element load_element(DType dtype, const void* data, std::size_t i) {
  switch (dtype.scalar) {
    case Scalar::Bool: return {read<std::uint8_t>(data, i) != 0, 0};
    case Scalar::Int8: return whole<std::int8_t>(data, i);
    case Scalar::UInt8: return whole<std::uint8_t>(data, i);
    case Scalar::Int16: return whole<std::int16_t>(data, i);
    case Scalar::UInt16: return whole<std::uint16_t>(data, i);
    case Scalar::Int32: return whole<std::int32_t>(data, i);
    case Scalar::UInt32: return whole<std::uint32_t>(data, i);
    case Scalar::Int64:
    case Scalar::UInt64: return whole<std::int64_t>(data, i);
    case Scalar::Float16: return {0, half_to_float(read<std::uint16_t>(data, i))};
    case Scalar::BFloat16: return {0, bfloat16_to_float(read<std::uint16_t>(data, i))};
    case Scalar::Float32: return {0, read<float>(data, i)};
    case Scalar::Float64: return {0, read<double>(data, i)};
    case Scalar::Fp8e4m3:
    case Scalar::Fp8e5m2:
    case Scalar::Fp8e4m3fnuz:
    case Scalar::Fp8e5m2fnuz: return {0, fp8_to_float(dtype.scalar, read<std::uint8_t>(data, i))};
    case Scalar::Void:
    case Scalar::Index: break;
  }
  throw InternalError("load_element", "a dtype without memory");
}

void store_element(DType dtype, void* data, std::size_t i, Element v) {
  switch (dtype.bits()) {
    case 8:
      if (dtype.is_float()) return write(data, i, float_to_fp8(dtype.scalar, static_cast<float>(v.f)));
      return write(data, i, static_cast<std::uint8_t>(v.i));
    case 16:
      if (dtype.scalar == Scalar::Float16) return write(data, i, float_to_half(static_cast<float>(v.f)));
      if (dtype.scalar == Scalar::BFloat16) return write(data, i, float_to_bfloat16(static_cast<float>(v.f)));
      return write(data, i, static_cast<std::uint16_t>(v.i));
    case 32:
      if (dtype.is_float()) return write(data, i, static_cast<float>(v.f));
      return write(data, i, static_cast<std::uint32_t>(v.i));
    default:
      if (dtype.is_float()) return write(data, i, v.f);
      return write(data, i, v.i);
  }
}

namespace {

// A double as a float that rounds on to a narrower dtype as the double itself would: towards 0, and with the
// last bit set where something was cut off.
float sticky_float(double v) {
  const auto near = static_cast<float>(v);
  if (!std::isfinite(near) || static_cast<double>(near) == v) return near;
  const float cut = std::abs(static_cast<double>(near)) > std::abs(v) ? std::nextafterf(near, 0.0F) : near;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(cut) | 1U);
}

}  // namespace

void convert_elements(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t count) {
  const bool twice = from_dtype.scalar == Scalar::Float64 && to_dtype.is_float() && to_dtype.bits() < 32;
  for (std::size_t i = 0; i < count; ++i) {
    Element v = load_element(from_dtype, from, i);
    if (twice) v.f = sticky_float(v.f);
    store_element(to_dtype, to, i, convert(to_dtype, from_dtype, v));
  }
}

void fill_elements(void* to, DType dtype, std::size_t count, Element value) {
  for (std::size_t i = 0; i < count; ++i) store_element(dtype, to, i, value);
}

}  // namespace lathe
