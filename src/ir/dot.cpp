#include "ir/dot.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/build.h"

namespace lathe {
namespace {

// clang-format off
constexpr DotKind kKinds[] = {
    // name       x                 y                 sum              parts  most x  sum bits
    {"bf16",      Scalar::BFloat16, Scalar::BFloat16, Scalar::Float32, 2,     0,      0},
    {"f16",       Scalar::Float16,  Scalar::Float16,  Scalar::Float32, 2,     0,      0},
    {"tf32",      Scalar::Float32,  Scalar::Float32,  Scalar::Float32, 1,     0,      0},
    {"e4m3",      Scalar::Fp8e4m3,  Scalar::Fp8e4m3,  Scalar::Float32, 4,     0,      13},
    {"e5m2",      Scalar::Fp8e5m2,  Scalar::Fp8e5m2,  Scalar::Float32, 4,     0,      13},
    {"e4m3_e5m2", Scalar::Fp8e4m3,  Scalar::Fp8e5m2,  Scalar::Float32, 4,     0,      13},
    {"e5m2_e4m3", Scalar::Fp8e5m2,  Scalar::Fp8e4m3,  Scalar::Float32, 4,     0,      13},
    {"i16",       Scalar::Int16,    Scalar::Int16,    Scalar::Int32,   2,     0,      0},
    {"u8i8",      Scalar::UInt8,    Scalar::Int8,     Scalar::Int32,   4,     0,      0},
    {"u7i8",      Scalar::UInt8,    Scalar::Int8,     Scalar::Int32,   4,     127,    0},
    {"i8i8",      Scalar::Int8,     Scalar::Int8,     Scalar::Int32,   4,     0,      0},
    {"i8u8",      Scalar::Int8,     Scalar::UInt8,    Scalar::Int32,   4,     0,      0},
    {"u8u8",      Scalar::UInt8,    Scalar::UInt8,    Scalar::Int32,   4,     0,      0},
};
// clang-format on

// What is left of a float32 number in tf32.
constexpr std::uint32_t kTf32Bits = 0xffffe000;

DType code_of(int bits) { return bits == 8 ? dtypes::UInt8 : bits == 16 ? dtypes::UInt16 : dtypes::UInt32; }

float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

std::int64_t part_of(Scalar scalar, std::uint32_t word, int bits, int i) {
  std::uint32_t part = word >> (bits * i) & ((1u << bits) - 1);
  return wrap(DType(scalar), part);
}

// Part i of a word as a number of the sum's dtype.
Node part_node(const DotKind& kind, Scalar scalar, Node word, int i) {
  const int bits = 32 / kind.parts;
  const std::uint16_t lanes = word.dtype().lanes;
  auto number = [&](DType dtype, std::int64_t v) { return splat(int_const(dtype, v), lanes); };
  if (scalar == Scalar::BFloat16) {
    Node code = i == 0 ? apply(Op::Shl, word, number(dtypes::UInt32, 16))
                       : apply(Op::And, word, number(dtypes::UInt32, 0xffff0000));
    return bitcast(code, dtypes::Float32);
  }
  if (scalar == Scalar::Float32)
    return bitcast(apply(Op::And, word, number(dtypes::UInt32, kTf32Bits)), dtypes::Float32);
  if (kind.sum == Scalar::Float32) {
    Node code = i == 0 ? word : apply(Op::Shr, word, number(dtypes::UInt32, bits * i));
    return cast(bitcast(cast(code, code_of(bits)), DType(scalar)), dtypes::Float32);
  }
  const bool is_signed = !DType(scalar).is_unsigned();
  Node top = i + 1 == kind.parts ? word : apply(Op::Shl, word, number(dtypes::UInt32, 32 - bits * (i + 1)));
  if (is_signed) return apply(Op::Shr, bitcast(top, dtypes::Int32), number(dtypes::Int32, 32 - bits));
  return bitcast(apply(Op::Shr, top, number(dtypes::UInt32, 32 - bits)), dtypes::Int32);
}

}  // namespace

const DotKind* find_dot_kind(std::string_view name) {
  for (const DotKind& kind : kKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

const DotKind& dot_kind(Node dot) {
  const DotKind* kind = find_dot_kind(dot.text());
  check_internal(kind != nullptr, "dot", "no such kind of product");
  return *kind;
}

Node pack(std::span<const Node> parts) {
  DType part = parts[0].dtype();
  std::uint16_t lanes = part.lanes;
  if (parts.size() == 1) lanes = static_cast<std::uint16_t>(lanes * part.bits() / 32);
  return intern(Op::Pack, dtypes::UInt32.vec(lanes), parts);
}

Node dot(const DotKind& kind, Node x, Node y, Node sum, DotShape shape) {
  AttrData name{std::string(kind.name), {}};
  if (shape.is_tile()) name.ints = {shape.m, shape.n, shape.k};
  if (shape.threads > 1) name.ints.push_back(shape.threads);
  Node args[] = {x, y, sum};
  return intern(Op::Dot, DType(kind.sum).vec(sum.dtype().lanes), args, Attr::of(name));
}

DotShape dot_shape(Node dot) {
  std::span<const std::int64_t> sizes = dot.ints();
  if (sizes.empty()) return {};
  return {static_cast<int>(sizes[0]), static_cast<int>(sizes[1]), static_cast<int>(sizes[2]),
          sizes.size() > 3 ? static_cast<int>(sizes[3]) : 1};
}

Node dot_by_parts(const DotKind& kind, Node x, Node y, Node sum, bool fused) {
  for (int i = kind.parts; i-- > 0;) {
    Node a = part_node(kind, kind.x, x, i), b = part_node(kind, kind.y, y, i);
    sum = fused && DType(kind.sum).is_float() ? apply(Op::Fma, a, b, sum) : sum + a * b;
  }
  return sum;
}

Node as_tf32(Node x) {
  Node bits = apply(Op::And, bitcast(x, dtypes::UInt32),
                    splat(int_const(dtypes::UInt32, kTf32Bits), x.dtype().lanes));
  return bitcast(bits, dtypes::Float32);
}
Node before_tf32(Node x) {
  if (!x.is(Op::Bitcast) || x.dtype() != dtypes::Float32 || !x.arg(0).is(Op::And)) return Node();
  Node bits = x.arg(0);
  const bool masked = bits.dtype() == dtypes::UInt32 && bits.arg(1).is_const_int(kTf32Bits) &&
                      bits.arg(0).is(Op::Bitcast) && bits.arg(0).arg(0).dtype() == dtypes::Float32;
  return masked ? bits.arg(0).arg(0) : Node();
}

double dot_part(const DotKind& kind, Scalar scalar, std::uint32_t word, int i) {
  const int bits = 32 / kind.parts;
  std::uint32_t code = bits == 32 ? word & kTf32Bits : word >> (bits * i) & ((1u << bits) - 1);
  return reinterpret(DType(scalar), code_of(bits), {static_cast<std::int64_t>(code), 0}).f;
}

Element dot_value(const DotKind& kind, std::uint32_t x, std::uint32_t y, Element sum) {
  if (kind.sum == Scalar::Float32 && kind.x != Scalar::BFloat16) {
    auto total = static_cast<float>(sum.f);
    for (int i = kind.parts; i-- > 0;)
      total = std::fma(static_cast<float>(dot_part(kind, kind.x, x, i)),
                       static_cast<float>(dot_part(kind, kind.y, y, i)), total);
    return {0, static_cast<double>(total)};
  }
  if (kind.sum == Scalar::Float32) {
    auto part = [](std::uint32_t word, int i) {
      return flushed(std::bit_cast<float>(i == 0 ? word << 16 : word & 0xffff0000));
    };
    float total = flushed(static_cast<float>(sum.f));
    for (int i = 1; i >= 0; --i) total = flushed(std::fma(part(x, i), part(y, i), total));
    return {0, static_cast<double>(total)};
  }
  std::int64_t total = sum.i;
  for (int i = 0; i < kind.parts; ++i)
    total += part_of(kind.x, x, 32 / kind.parts, i) * part_of(kind.y, y, 32 / kind.parts, i);
  return {wrap(DType(kind.sum), total), 0};
}

namespace {

// A number with so many bits behind the first one of `largest`, the rest cut off.
double cut_off(double x, double largest, int bits) {
  if (largest == 0 || !std::isfinite(largest) || !std::isfinite(x)) return x;
  const double unit = std::ldexp(1.0, std::ilogb(largest) - bits);
  return std::trunc(x / unit) * unit;
}

Element exact_row_value(const DotKind& kind, std::span<const std::uint32_t> x,
                        std::span<const std::uint32_t> y, Element sum) {
  double products = 0, largest = std::fabs(sum.f);
  for (std::size_t k = 0; k < x.size(); ++k)
    for (int i = 0; i < kind.parts; ++i) {
      const double product = dot_part(kind, kind.x, x[k], i) * dot_part(kind, kind.y, y[k], i);
      products += product;
      largest = std::max(largest, std::fabs(product));
    }
  if (kind.sum_bits == 0) {
    const float rounded = static_cast<float>(products) + static_cast<float>(sum.f);
    return {0, static_cast<double>(rounded)};
  }
  largest = std::max(largest, std::fabs(products));
  const double total = cut_off(sum.f, largest, kind.sum_bits) + cut_off(products, largest, kind.sum_bits);
  return {0, static_cast<double>(static_cast<float>(total))};
}

}  // namespace

Element dot_row_value(const DotKind& kind, std::span<const std::uint32_t> x, std::span<const std::uint32_t> y,
                      Element sum) {
  if (kind.sum != Scalar::Float32) {
    for (std::size_t k = 0; k < x.size(); ++k) sum = dot_value(kind, x[k], y[k], sum);
    return sum;
  }
  if (kind.x != Scalar::BFloat16) return exact_row_value(kind, x, y, sum);
  float parts[2] = {0, 0};
  for (std::size_t k = 0; k < x.size(); ++k)
    for (int i = 0; i < 2; ++i) {
      auto part = [&](std::uint32_t word) {
        return flushed(std::bit_cast<float>(i == 0 ? word << 16 : word & 0xffff0000));
      };
      parts[i] = flushed(std::fma(part(x[k]), part(y[k]), parts[i]));
    }
  const float both = flushed(parts[0] + parts[1]);
  return {0, static_cast<double>(flushed(flushed(static_cast<float>(sum.f)) + both))};
}

}  // namespace lathe
