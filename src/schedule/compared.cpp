#include "schedule/compared.h"

#include <algorithm>

#include "ir/build.h"

namespace lathe {
namespace {

// Nodes of an expression that are looked at. Beyond, the answer is the careful one.
constexpr std::size_t kNear = 4096;
constexpr int kDeep = 16;

bool compares(Node n) { return n.is(Op::Eq) || n.is(Op::Ne) || n.is(Op::Less); }

// What is not computed: its bits are there already.
bool is_constant(Node n) {
  return n.is_const() || n.is(Op::Var) || n.is(Op::Bind) || n.is(Op::Arange) || n.is(Op::Dims);
}
bool is_plain_memory(Node n) { return n.is(Op::Buffer) || n.is(Op::After); }

// Values that are stored or passed on as they are.
bool keeps_bits(Node n) {
  return is_movement(n.op()) || n.is(Op::Bitcast) || n.is(Op::Detach) || n.is(Op::GradFence) ||
         n.is(Op::Custom) || n.is(Op::Contiguous) || n.is(Op::Copy);
}

// Whether the value may become a product once a kernel has its positions: ops around a product are folded
// away in some kernels, where a condition is known or the other operand is zero or one.
bool may_be_product(Node n, int depth = 0) {
  if (n.is(Op::Mul) || n.is(Op::Div) || depth > kDeep) return true;
  if (n.is(Op::Where)) return may_be_product(n.arg(1), depth + 1) || may_be_product(n.arg(2), depth + 1);
  if (n.is(Op::Add) || n.is(Op::Sub))
    return may_be_product(n.arg(0), depth + 1) || may_be_product(n.arg(1), depth + 1);
  return (keeps_bits(n) || n.is(Op::Neg) || n.is(Op::Cast)) && may_be_product(n.arg(0), depth + 1);
}

// Whether x*y + z may be rounded once in one kernel and twice in another
// (codegen/kernel/fuse_multiply_add.h). Not if the operand is a product without another user, since then all
// kernels contract it.
bool contracts_by_kernel(Node add, const NodeMap<int>* uses) {
  if (!(add.is(Op::Add) || add.is(Op::Sub)) || !add.dtype().is_float()) return false;
  const bool left = may_be_product(add.arg(0)), right = may_be_product(add.arg(1));
  if (!left && !right) return false;
  Node product = add.arg(left ? 0 : 1);
  const int* users = uses != nullptr ? uses->find(product) : nullptr;
  return (left && right) || !product.is(Op::Mul) || users == nullptr || *users > 1;
}

// Whether the order of a reduce's steps changes no bits.
bool combines_exactly(Node n) {
  return !n.dtype().is_float() || reduce_op(n) == Op::Max || reduce_op(n) == Op::Min;
}

// The operands a comparison sees through to: equal bits of them give equal bits of the node, wherever it is
// computed. None where that is not so.
std::span<const Node> transparent(Node n, const NodeMap<int>* uses) {
  if (keeps_bits(n) || (n.is(Op::Reduce) && combines_exactly(n))) return n.args().first(1);
  if ((n.is(Op::Scan) || n.is(Op::Scatter) || n.is(Op::RaggedReduce)) && combines_exactly(n)) return n.args();
  if (n.is(Op::Take) || n.is(Op::Sort) || (is_elementwise(n.op()) && !contracts_by_kernel(n, uses)))
    return n.args();
  return {};
}

// The values a node is made of, as far as a comparison sees.
NodeMap<char> sources(Node node, const NodeMap<int>* uses) {
  NodeMap<char> out, seen;
  std::vector<Node> stack{node};
  while (!stack.empty()) {
    Node n = stack.back();
    stack.pop_back();
    if (is_constant(n) || !seen.try_emplace(n).second) continue;
    std::span<const Node> through = transparent(n, uses);
    if (through.empty() || realized(n))
      out[n] = 1;
    else
      stack.insert(stack.end(), through.begin(), through.end());
  }
  return out;
}

// Adds a realized value that is a function of only known values, some of which are recomputed: it is
// outdated, and so are the realized values it was computed from.
void add_outdated(Node value, const NodeMap<char>& known, NodeMap<char>& out) {
  if (!realized(value) || is_plain_memory(value) || known.contains(value)) return;
  NodeMap<char> seen;
  bool computed = false;
  std::vector<Node> stack{value}, again;
  while (!stack.empty()) {
    Node n = stack.back();
    stack.pop_back();
    if (is_constant(n) || !seen.try_emplace(n).second) continue;
    std::span<const Node> through = known.contains(n) ? std::span<const Node>() : transparent(n, nullptr);
    if (through.empty() && !known.contains(n)) {
      if (!realized(n) || is_plain_memory(n)) return;
      continue;
    }
    if (seen.size() > kNear) {
      computed = true;
      again.push_back(value);
      break;
    }
    computed |= through.empty() && !is_plain_memory(n);
    if (!through.empty() && realized(n)) again.push_back(n);
    stack.insert(stack.end(), through.begin(), through.end());
  }
  if (computed)
    for (Node n : again) out[n] = 1;
}

}  // namespace

NodeMap<char> compared_values(std::span<const Node> order, const NodeMap<int>& uses) {
  NodeMap<char> out;
  for (Node n : order) {
    if (!compares(n) || n.arg(0).is_const() || n.arg(1).is_const()) continue;
    const NodeMap<char> left = sources(n.arg(0), &uses);
    if (left.empty()) continue;
    for (const auto& [value, one] : sources(n.arg(1), &uses))
      if (left.contains(value) && !is_plain_memory(value)) out[value] = 1;
  }
  return out;
}

NodeMap<char> outdated_by_rounding(std::span<const Node> order) {
  NodeMap<char> out;
  for (Node n : order) {
    if (!compares(n) || realized(n) || n.arg(0).is_const() || n.arg(1).is_const()) continue;
    const NodeMap<char> left = sources(n.arg(0), nullptr), right = sources(n.arg(1), nullptr);
    for (const auto& [value, one] : left) add_outdated(value, right, out);
    for (const auto& [value, one] : right) add_outdated(value, left, out);
  }
  return out;
}

}  // namespace lathe
