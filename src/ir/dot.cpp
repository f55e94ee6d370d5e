#include "ir/dot.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/build.h"

namespace lathe {
namespace {

// clang-format off
constexpr DotKind kKinds[] = {
    // name   x                 y                 sum              parts  most x
    {"bf16",  Scalar::BFloat16, Scalar::BFloat16, Scalar::Float32, 2,     0},
    {"i16",   Scalar::Int16,    Scalar::Int16,    Scalar::Int32,   2,     0},
    {"u8i8",  Scalar::UInt8,    Scalar::Int8,     Scalar::Int32,   4,     0},
    {"u7i8",  Scalar::UInt8,    Scalar::Int8,     Scalar::Int32,   4,     127},
    {"i8i8",  Scalar::Int8,     Scalar::Int8,     Scalar::Int32,   4,     0},
    {"i8u8",  Scalar::Int8,     Scalar::UInt8,    Scalar::Int32,   4,     0},
    {"u8u8",  Scalar::UInt8,    Scalar::UInt8,    Scalar::Int32,   4,     0},
};
// clang-format on

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
  if (kind.sum == Scalar::Float32) {
    Node code = i == 0 ? apply(Op::Shl, word, number(dtypes::UInt32, 16))
                       : apply(Op::And, word, number(dtypes::UInt32, 0xffff0000));
    return bitcast(code, dtypes::Float32);
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

Element dot_value(const DotKind& kind, std::uint32_t x, std::uint32_t y, Element sum) {
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

Element dot_row_value(const DotKind& kind, std::span<const std::uint32_t> x, std::span<const std::uint32_t> y,
                      Element sum) {
  if (kind.sum != Scalar::Float32) {
    for (std::size_t k = 0; k < x.size(); ++k) sum = dot_value(kind, x[k], y[k], sum);
    return sum;
  }
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
