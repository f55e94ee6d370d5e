#include "render/small_tables.h"

#include <cstdlib>

#include "ir/build.h"
#include "render/prepare.h"

namespace lathe::render {
namespace {

constexpr std::int64_t kEntries = 16, kExact = 1 << 24;

// The integer in every lane of a constant, or nothing.
bool whole_constant(Node n, std::int64_t& value) {
  Node c = constant_of(n);
  if (!c || !c.dtype().is_int()) return false;
  value = c.int_attr();
  return true;
}

}  // namespace

SmallTable small_table_of(Node cast) {
  if (!cast.is(Op::Cast) || cast.dtype().element() != dtypes::Float32) return {};
  Node bits = cast.arg(0);
  if (bits.dtype().element() != dtypes::Int32) return {};
  SmallTable table;
  for (std::size_t i = 0; bits.is(Op::Add) && i < 2; ++i)
    if (whole_constant(bits.arg(i), table.first)) {
      bits = bits.arg(1 - i);
      break;
    }
  if (std::abs(table.first) > kExact - kEntries) return {};
  std::int64_t mask = 0;
  for (std::size_t i = 0; bits.is(Op::And) && i < 2; ++i)
    if (whole_constant(bits.arg(i), mask) && mask == kEntries - 1) {
      table.index = bits.arg(1 - i);
      return table;
    }
  if (bits.lo() < 0 || bits.hi() >= kEntries) return {};
  table.index = bits;
  return table;
}

}  // namespace lathe::render
