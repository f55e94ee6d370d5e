#include "codegen/lower/round_products.h"

#include <algorithm>
#include <vector>

#include "ir/build.h"
#include "ir/dot.h"
#include "ir/machine_ops.h"
#include "ir/walk.h"

namespace lathe {
namespace {

constexpr int kFewestLanes = 8;

bool is_zero(Node n) {
  Node c = constant_of(n);
  return c && c.dtype() == dtypes::Float32 && c.const_float() == 0;
}

// Whether a value is the result of a bfloat16 product, or read from memory that holds nothing else.
bool is_product(Node value, const NodeMap<bool>& memory) {
  if (value.is(Op::Dot)) return value.dtype().element() == dtypes::Float32;
  const bool* held = value.is(Op::Load) ? memory.find(base_memory(value.arg(0))) : nullptr;
  return held != nullptr && *held;
}

// The kernel's own memory: whether only results of bfloat16 products, and zeros, are written to it.
NodeMap<bool> holds_products(const std::vector<Node>& stores) {
  NodeMap<bool> memory;
  for (Node store : stores)
    if (Node base = base_memory(store.arg(0)); base.is(Op::Define)) memory[base] = true;
  // What is written from memory that holds something else does not count either.
  for (bool changed = true; changed;) {
    changed = false;
    for (Node store : stores) {
      bool* held = memory.find(base_memory(store.arg(0)));
      if (held == nullptr || !*held || is_zero(store.arg(2)) || is_product(store.arg(2), memory)) continue;
      *held = false;
      changed = true;
    }
  }
  return memory;
}

}  // namespace

Node round_products(Node kernel, const Target& target) {
  if (!target.rounds_products) return kernel;
  const auto rounds = [](Node n) {
    return n.is(Op::Cast) && n.dtype().scalar == Scalar::BFloat16 && n.dtype().lanes >= kFewestLanes &&
           n.arg(0).dtype().scalar == Scalar::Float32;
  };
  const std::vector<Node> order = toposort(kernel);
  if (std::none_of(order.begin(), order.end(), rounds)) return kernel;
  std::vector<Node> stores;
  std::copy_if(order.begin(), order.end(), std::back_inserter(stores),
               [](Node n) { return n.is(Op::Store); });
  const NodeMap<bool> memory = holds_products(stores);
  NodeMap<Node> done;
  return rebuilt(order, done, [&](Node n, std::span<const Node> args) {
    return rounds(n) && is_product(n.arg(0), memory) ? narrow(args[0]) : Node();
  });
}

}  // namespace lathe
