#include "render/prepare.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "ir/access.h"
#include "ir/build.h"
#include "ir/group_ops.h"

namespace lathe::render {

std::int64_t local_element_bytes(DType dtype) {
  return std::int64_t{dtype.bytes()} * static_cast<std::int64_t>(std::bit_ceil(unsigned{dtype.lanes}));
}

LocalLayout layout_locals(const Program& program, std::int64_t stack_bytes) {
  LocalLayout layout;
  std::vector<Node> seen;
  const auto add = [&](Node node) {
    Node base = base_memory(node);
    if (base.is(Op::Define) && std::find(seen.begin(), seen.end(), base) == seen.end()) {
      seen.push_back(base);
      layout.memories.push_back({base, -1});
    }
  };
  for (const NodeRef& instruction : program.code) {
    Node node = instruction;
    if (node.is(Op::Define)) add(node);
    for_each_memory(node, add);
  }
  if (stack_bytes == 0) return layout;
  std::int64_t on_stack = 0;
  for (LocalMemory& memory : layout.memories) {
    std::int64_t bytes = local_element_bytes(memory.define.dtype()) * memory_size(memory.define);
    if (memory_size(memory.define) == 1 || on_stack + bytes <= stack_bytes) {
      on_stack += bytes;
    } else {
      memory.scratch_offset = layout.scratch_bytes;
      layout.scratch_bytes += (bytes + 63) / 64 * 64;
    }
  }
  return layout;
}

std::vector<Node> shuffled_vectors(Node vector) {
  constexpr std::size_t kMost = 4;
  std::vector<Node> from;
  if (!vector.is(Op::Vec)) return from;
  for (Node a : vector.args()) {
    if (!a.is(Op::Lane)) return {};
    if (std::find(from.begin(), from.end(), a.arg(0)) == from.end()) from.push_back(a.arg(0));
    if (from.size() > kMost) return {};
  }
  const auto as_long = [&](Node x) { return x.dtype().lanes == vector.dtype().lanes; };
  if (from.size() == 1 || std::all_of(from.begin(), from.end(), as_long)) return from;
  // One after the other.
  const std::size_t part = from[0].dtype().lanes;
  for (std::size_t i = 0; i < vector.arg_count(); ++i) {
    const bool next = i / part < from.size() && vector.arg(i).arg(0) == from[i / part] &&
                      vector.arg(i).int_attr() == static_cast<std::int64_t>(i % part);
    if (!next || from[i / part].dtype().lanes != part) return {};
  }
  return std::has_single_bit(from.size()) ? from : std::vector<Node>();
}

void check_contiguous(Node access) {
  check_internal(access_of(access).rows == 1, "render", "rows that are apart and no fragment of a tile unit");
}

bool is_number(Node node) {
  Node c = constant_of(node);
  return c && (!c.dtype().is_float() || !std::isnan(c.const_float()));
}

bool compares_backwards(Node extremum) {
  Node x = extremum.arg(0), y = extremum.arg(1);
  if (!x.dtype().is_float()) return false;
  const bool carried = x.is(Op::Load) && base_memory(x.arg(0)).is(Op::Define);
  return is_number(y) || (carried && !is_number(x));
}

// Bounds of uint64 stop at int64's maximum, so only a constant says anything about a uint64 value.
bool divides_plainly(Node divisor) {
  bool is_unsigned = divisor.dtype().is_unsigned();
  if (Node c = constant_of(divisor)) return c.int_attr() != 0 && (is_unsigned || c.int_attr() != -1);
  if (divisor.dtype().scalar == Scalar::UInt64) return false;
  return divisor.lo() > 0 || divisor.hi() < -1;
}

bool shifts_plainly(Node amount) {
  int bits = amount.dtype().bits();
  if (Node c = constant_of(amount)) return 0 <= c.int_attr() && c.int_attr() < bits;
  return amount.dtype().scalar != Scalar::UInt64 && amount.lo() >= 0 && amount.hi() < bits;
}

}  // namespace lathe::render
