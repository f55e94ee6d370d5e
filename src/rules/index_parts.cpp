#include "rules/index_parts.h"

#include <numeric>

#include "ir/build.h"

namespace lathe {
namespace {

// A 64-bit sum wraps as an address does.
bool may_be_split(Node sum) { return sum.is(Op::Add) && (sum.dtype().bits() == 64 || never_wraps(sum)); }

bool is_exact_sum(Node n) { return (n.is(Op::Add) || n.is(Op::Sub) || n.is(Op::Mul)) && never_wraps(n); }

}  // namespace

bool never_wraps(Node node) {
  DType dtype = node.dtype();
  if (!dtype.is_int() || dtype.is_unsigned()) return false;
  return node.lo() > dtype.min_int() || node.hi() < dtype.max_int();
}

IndexParts index_parts(Node index) {
  IndexParts parts{index, 0, Node()};
  if (index.dtype().lanes > 1) {
    parts = {Node(), 0, index};
    if (may_be_split(index))
      for (std::size_t i = 0; i < 2; ++i)
        if (index.arg(i).is(Op::Splat)) parts = {index.arg(i).arg(0), 0, index.arg(1 - i)};
  }
  if (parts.scalar && may_be_split(parts.scalar) && parts.scalar.arg(1).is_const())
    parts = {parts.scalar.arg(0), parts.scalar.arg(1).int_attr(), parts.lanes};
  if (parts.scalar && parts.scalar.is_const())
    parts = {Node(), parts.scalar.int_attr() + parts.constant, parts.lanes};
  return parts;
}

// The lanes of a vector of constants, as printed: none where it is no such vector.
std::vector<std::int64_t> constant_lanes(Node lanes) {
  if (!lanes) return {};
  const auto count = static_cast<std::size_t>(lanes.dtype().lanes);
  if (lanes.is(Op::Iota)) {
    std::vector<std::int64_t> out(count);
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  if (Node c = constant_of(lanes)) return std::vector<std::int64_t>(count, c.int_attr());
  if (!is_exact_sum(lanes)) return {};
  std::vector<std::int64_t> out = constant_lanes(lanes.arg(0)), other = constant_lanes(lanes.arg(1));
  if (out.empty() || other.empty()) return {};
  for (std::size_t i = 0; i < count; ++i)
    out[i] = lanes.is(Op::Add)   ? out[i] + other[i]
             : lanes.is(Op::Sub) ? out[i] - other[i]
                                 : out[i] * other[i];
  return out;
}

bool are_apart(Node index, std::int64_t lanes, Node other, std::int64_t other_lanes) {
  const IndexParts a = index_parts(index), b = index_parts(other);
  if (a.scalar != b.scalar || a.lanes || b.lanes) return false;
  return a.constant + lanes <= b.constant || b.constant + other_lanes <= a.constant;
}

}  // namespace lathe
