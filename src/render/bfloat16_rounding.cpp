#include "render/bfloat16_rounding.h"

#include "base/small_vector.h"
#include "ir/build.h"
#include "render/prepare.h"

namespace lathe::render {
namespace {

bool is_integer(Node n, std::int64_t v) {
  Node c = constant_of(n);
  return c && c.dtype().is_int() && c.int_attr() == v;
}
bool is_zero(Node n) {
  Node c = constant_of(n);
  return c && c.dtype() == dtypes::Float32 && c.const_float() == 0;
}
// The other operand where one is the constant, or null.
Node beside(Node n, Op op, std::int64_t constant) {
  if (!n.is(op)) return Node();
  for (std::size_t i = 0; i < 2; ++i)
    if (is_integer(n.arg(i), constant)) return n.arg(1 - i);
  return Node();
}
bool is_upper_half(Node n, Node bits) {
  return n && n.is(Op::Shr) && n.arg(0) == bits && is_integer(n.arg(1), 16);
}

// bits + 0x7fff + (upper & 1), in any order.
bool is_rounding_sum(Node n, Node bits) {
  int found[3] = {0, 0, 0};
  SmallVector<Node, 8> terms;
  terms.push_back(n);
  for (std::size_t i = 0; i < terms.size() && i < 8; ++i) {
    Node term = terms[i];
    if (term == bits)
      ++found[0];
    else if (is_integer(term, 0x7fff))
      ++found[1];
    else if (is_upper_half(beside(term, Op::And, 1), bits))
      ++found[2];
    else if (term.is(Op::Add))
      terms.append(term.args().begin(), term.args().end());
    else
      return false;
  }
  return found[0] == 1 && found[1] == 1 && found[2] == 1;
}

}  // namespace

Node rounded_to_bfloat16(Node code) {
  if (!code.is(Op::Cast) || code.dtype().element() != dtypes::UInt16 || !code.arg(0).is(Op::Where))
    return Node();
  Node nan = code.arg(0).arg(0), quiet = code.arg(0).arg(1), rounded = code.arg(0).arg(2);
  if (!nan.is(Op::Ne) || nan.arg(0) != nan.arg(1) || nan.arg(0).dtype().element() != dtypes::Float32)
    return Node();
  if (!rounded.is(Op::Shr) || !is_integer(rounded.arg(1), 16)) return Node();
  Node upper = beside(quiet, Op::Or, 0x40);
  if (!upper || !upper.is(Op::Shr)) return Node();
  Node bits = upper.arg(0);
  if (!bits.is(Op::Bitcast) || bits.arg(0) != nan.arg(0) || bits.dtype().element() != dtypes::UInt32)
    return Node();
  return is_upper_half(upper, bits) && is_rounding_sum(rounded.arg(0), bits) ? nan.arg(0) : Node();
}

bool is_product(Node value, const NodeMap<bool>& memory) {
  if (value.is(Op::Dot)) return value.dtype().element() == dtypes::Float32;
  const bool* held = value.is(Op::Load) ? memory.find(base_memory(value.arg(0))) : nullptr;
  return held != nullptr && *held;
}

NodeMap<bool> holds_products(const Program& program) {
  NodeMap<bool> memory;
  for (Node n : program.code)
    if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Define)) memory[base_memory(n.arg(0))] = true;
  // What is written from memory that holds something else does not count either.
  for (bool changed = true; changed;) {
    changed = false;
    for (Node n : program.code) {
      if (!n.is(Op::Store)) continue;
      bool* held = memory.find(base_memory(n.arg(0)));
      if (held == nullptr || !*held || is_zero(n.arg(2)) || is_product(n.arg(2), memory)) continue;
      *held = false;
      changed = true;
    }
  }
  return memory;
}

}  // namespace lathe::render
