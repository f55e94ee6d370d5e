#include "codegen/lower/small_tables.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <vector>

#include "ir/build.h"
#include "ir/machine_ops.h"
#include "ir/walk.h"

namespace lathe {
namespace {

constexpr std::int64_t kEntries = 16, kExact = 1 << 24;

// The integer in every lane of a constant, or nothing.
std::optional<std::int64_t> integer_of(Node n) {
  Node c = constant_of(n);
  return c && c.dtype().is_int() ? std::optional(c.int_attr()) : std::nullopt;
}

// float(bits + c), or null where the cast is anything else.
Node from_table(Node cast) {
  if (!cast.is(Op::Cast) || cast.dtype().element() != dtypes::Float32) return Node();
  Node bits = cast.arg(0);
  if (bits.dtype().element() != dtypes::Int32) return Node();
  std::int64_t first = 0;
  for (std::size_t i = 0; bits.is(Op::Add) && i < 2; ++i)
    if (const auto added = integer_of(bits.arg(i))) {
      first = *added;
      bits = bits.arg(1 - i);
      break;
    }
  if (std::abs(first) > kExact - kEntries) return Node();
  std::array<std::int64_t, kEntries> numbers;
  std::iota(numbers.begin(), numbers.end(), first);
  // Only the lower bits of an index count, so that the mask is not needed.
  for (std::size_t i = 0; bits.is(Op::And) && i < 2; ++i)
    if (integer_of(bits.arg(i)) == kEntries - 1) return table(dtypes::Float32, numbers, bits.arg(1 - i));
  if (bits.lo() < 0 || bits.hi() >= kEntries) return Node();
  return table(dtypes::Float32, numbers, bits);
}

}  // namespace

Node small_tables(Node kernel, const Target& target) {
  if (target.table_lanes != kEntries) return kernel;
  const std::vector<Node> order = toposort(kernel);
  const auto is_read = [&](Node n) { return n.dtype().lanes == target.table_lanes && from_table(n); };
  if (std::none_of(order.begin(), order.end(), is_read)) return kernel;
  NodeMap<Node> done;
  return rebuilt(order, done, [&](Node n, std::span<const Node> args) {
    return is_read(n) ? from_table(rebuild(n, args)) : Node();
  });
}

}  // namespace lathe
