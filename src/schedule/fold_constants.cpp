#include "schedule/fold_constants.h"

#include <cmath>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/shape.h"
#include "ir/value.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

// The number spread over the node's shape.
Node spread(Node number, Node like) {
  if (like.rank() == 0) return number;
  SmallVector<Node, 8> ones(like.rank(), index_const(1));
  return expand(reshape(number, ones), like.shape());
}

constexpr std::int64_t kMostFactors = 64;  // of a product that is computed here

// The number c, n times; null where that is not simple.
Node repeated(Op op, Node c, std::int64_t n, const RuleChanges& changes) {
  DType dtype = c.dtype();
  switch (op) {
    case Op::Max:
    case Op::Min:
    case Op::And:
    case Op::Or: return c;
    case Op::Add:
      // Counts that a float does not hold are left to the kernel.
      if (dtype.is_bool()) return c;
      if (dtype.is_float() && (dtype.bits() < 32 || n > (std::int64_t{1} << 24))) return Node();
      return simplify(apply(Op::Mul, c, number(dtype, static_cast<double>(n))), changes);
    case Op::Mul: {
      if (n > kMostFactors) return Node();
      Node product = c;
      for (std::int64_t i = 1; i < n; ++i) product = simplify(apply(Op::Mul, product, c), changes);
      return product;
    }
    default: return Node();
  }
}

// An op over numbers. Functions that devices approximate are left to them: a folded one would differ in its
// last bit.
Node computed(Node node, std::span<const Node> args, const RuleChanges& changes) {
  if (node.is(Op::Cast)) return simplify(cast(args[0], node.dtype()), changes);
  switch (node.op()) {
    case Op::Sqrt:
    case Op::Recip:
    case Op::Trunc:
    case Op::Floor:
      if (args[0].attr().kind != Attr::Kind::Float) return Node();
      return element_const(node.dtype(), evaluate(node.op(), node.dtype(), Element{0, args[0].attr().f}));
    default: return simplify(apply_scalar(node.op(), args), changes);
  }
}

Node reduced(Node node, Node c, const RuleChanges& changes) {
  std::int64_t n = 1;
  std::span<const std::int64_t> ints = node.ints();
  for (std::size_t i = 1; i < ints.size(); ++i) {
    Node size = node.arg(0).shape()[static_cast<std::size_t>(ints[i])];
    if (!size.is_const() || __builtin_mul_overflow(n, size.const_int(), &n)) return Node();
  }
  return n > 0 ? repeated(reduce_op(node), c, n, changes) : Node();
}

}  // namespace

Node ConstantFolder::fold(Node node) {
  auto number = [&](Node x) {
    const Node* found = number_of_.find(x);
    return found != nullptr ? *found : x.is_const() ? x : Node();
  };
  Node value;
  if (is_movement(node.op())) {
    Node c = number(node.arg(0));
    // Padding and unskewed windows add zeros.
    bool pads = node.is(Op::Pad) || node.is(Op::Unskew);
    if (!c || (pads && !is_plus_zero(c))) return node;
    value = c;
  } else if (is_elementwise(node.op())) {
    SmallVector<Node, 3> args;
    for (Node a : node.args()) args.push_back(number(a));
    for (Node a : args)
      if (!a) return node;
    value = computed(node, std::span<const Node>(args.data(), args.size()), changes_);
  } else if (node.is(Op::Reduce)) {
    if (Node c = number(node.arg(0))) value = reduced(node, c, changes_);
  }
  if (!value || !value.is_const()) return node;
  Node out = spread(value, node);
  number_of_[out] = value;
  return out;
}

}  // namespace lathe
