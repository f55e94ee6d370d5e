#include "reference/array.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lathe::reference {
namespace {

template <class T>
Cell read_int(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  Cell c;
  c.i = static_cast<std::int64_t>(v);
  return c;
}
template <class T>
void write_int(std::byte* at, Cell value) {
  T v = static_cast<T>(value.i);
  std::memcpy(at, &v, sizeof v);
}
Cell read_bool(const std::byte* at) {
  Cell c;
  c.i = *at != std::byte{0};
  return c;
}
void write_bool(std::byte* at, Cell value) { *at = std::byte(value.i != 0); }

template <class T>
Cell read_float(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  Cell c;
  c.f = static_cast<double>(v);
  return c;
}
template <class T>
void write_float(std::byte* at, Cell value) {
  T v = static_cast<T>(value.f);
  std::memcpy(at, &v, sizeof v);
}

// The bits of a small float, by the conversions of ir/dtype.h.
template <float (*Decode)(std::uint16_t)>
Cell read_16(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  Cell c;
  c.f = static_cast<double>(Decode(bits));
  return c;
}
template <std::uint16_t (*Encode)(float)>
void write_16(std::byte* at, Cell value) {
  std::uint16_t bits = Encode(static_cast<float>(value.f));
  std::memcpy(at, &bits, sizeof bits);
}
template <Scalar Kind>
Cell read_8(const std::byte* at) {
  Cell c;
  c.f = static_cast<double>(fp8_to_float(Kind, static_cast<std::uint8_t>(*at)));
  return c;
}
template <Scalar Kind>
void write_8(std::byte* at, Cell value) {
  *at = std::byte(float_to_fp8(Kind, static_cast<float>(value.f)));
}

struct Access {
  Reader read;
  Writer write;
};

Access access_of(Scalar scalar) {
  switch (scalar) {
    case Scalar::Bool: return {read_bool, write_bool};
    case Scalar::Int8: return {read_int<std::int8_t>, write_int<std::int8_t>};
    case Scalar::UInt8: return {read_int<std::uint8_t>, write_int<std::uint8_t>};
    case Scalar::Int16: return {read_int<std::int16_t>, write_int<std::int16_t>};
    case Scalar::UInt16: return {read_int<std::uint16_t>, write_int<std::uint16_t>};
    case Scalar::Int32: return {read_int<std::int32_t>, write_int<std::int32_t>};
    case Scalar::UInt32: return {read_int<std::uint32_t>, write_int<std::uint32_t>};
    case Scalar::Index:
    case Scalar::Int64:
    case Scalar::UInt64: return {read_int<std::int64_t>, write_int<std::int64_t>};
    case Scalar::Fp8e4m3: return {read_8<Scalar::Fp8e4m3>, write_8<Scalar::Fp8e4m3>};
    case Scalar::Fp8e5m2: return {read_8<Scalar::Fp8e5m2>, write_8<Scalar::Fp8e5m2>};
    case Scalar::Fp8e4m3fnuz: return {read_8<Scalar::Fp8e4m3fnuz>, write_8<Scalar::Fp8e4m3fnuz>};
    case Scalar::Fp8e5m2fnuz: return {read_8<Scalar::Fp8e5m2fnuz>, write_8<Scalar::Fp8e5m2fnuz>};
    case Scalar::Float16: return {read_16<half_to_float>, write_16<float_to_half>};
    case Scalar::BFloat16: return {read_16<bfloat16_to_float>, write_16<float_to_bfloat16>};
    case Scalar::Float32: return {read_float<float>, write_float<float>};
    case Scalar::Float64: return {read_float<double>, write_float<double>};
    case Scalar::Void: break;
  }
  throw InternalError("reference", "memory of void elements");
}

}  // namespace

Reader reader_of(DType dtype) { return access_of(dtype.scalar).read; }
Writer writer_of(DType dtype) { return access_of(dtype.scalar).write; }

Array::Array(DType dtype, std::int64_t size)
    : dtype_(dtype.element()),
      size_(size),
      width_(dtype.bytes()),
      read_(reader_of(dtype)),
      write_(writer_of(dtype)),
      bytes_(static_cast<std::size_t>(size) * static_cast<std::size_t>(dtype.bytes())) {}

Array Array::of(DType dtype, std::span<const double> values) {
  Array out(dtype, static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    out.set(static_cast<std::int64_t>(i), convert(dtype, dtypes::Float64, {0, values[i]}));
  return out;
}

double Array::number(std::int64_t i) const { return convert(dtypes::Float64, dtype_, at(i)).f; }

std::vector<double> Array::numbers() const {
  std::vector<double> out;
  for (std::int64_t i = 0; i < size_; ++i) out.push_back(number(i));
  return out;
}

void FetchedElements::add(std::size_t width, std::span<const std::int64_t> elements,
                          std::span<const std::byte> bytes) {
  batches_.push_back({width, {elements.begin(), elements.end()}, {bytes.begin(), bytes.end()}});
}

const std::byte* FetchedElements::find(std::int64_t element) const {
  for (const Batch& batch : batches_) {
    const auto at = std::ranges::lower_bound(batch.elements, element);
    if (at == batch.elements.end() || *at != element) continue;
    return batch.bytes.data() + static_cast<std::size_t>(at - batch.elements.begin()) * batch.width;
  }
  return nullptr;
}

}  // namespace lathe::reference
