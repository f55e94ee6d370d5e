#include "codegen/kernel/fuse_multiply_add.h"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/planted.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/dot.h"
#include "ir/walk.h"

namespace lathe {
namespace {

bool is_wide_float(Node n) {
  return n.dtype().scalar == Scalar::Float32 || n.dtype().scalar == Scalar::Float64;
}

bool is_accumulator(Node n) { return n.is(Op::Load) && base_memory(n.arg(0)).is(Op::Define); }

// Numbers that tell values apart in most cases however the kernel's ranges were split, for sums of products
// that the options made (of an unrolled reduce): made of the arithmetic on floats and of where each load
// begins, not of index expressions, whose form the options and the number of threads change.
class ValueNumbers {
 public:
  explicit ValueNumbers(std::span<const Node> order) : order_(order) {}
  std::uint64_t of(Node value) {
    if (known_.empty())
      for (Node n : order_)
        if (n.dtype().is_float()) known_.try_emplace(n, number(n));
    return *known_.find(value);
  }

 private:
  std::uint64_t number(Node n) const {
    std::uint64_t h = hash_mix(static_cast<std::uint64_t>(n.op()));
    if (n.is_const()) return h ^ std::bit_cast<std::uint64_t>(n.float_attr());
    if (n.is(Op::Load)) {
      const Node memory = base_memory(n.arg(0));
      if (memory.is(Op::Param)) h += static_cast<std::uint64_t>(param_slot(memory)) + 1;
      return hash_mix(hash_mix(h) + static_cast<std::uint64_t>(n.arg(1).lo()));
    }
    // Operands of commutative ops are ordered by keys that hold their indices: here they have no order.
    const bool ordered = !is_commutative(n.op());
    for (std::size_t i = 0; i < n.arg_count(); ++i)
      if (const std::uint64_t* operand = known_.find(n.arg(i))) h += hash_mix(*operand + (ordered ? i : 0));
    return h;
  }

  std::span<const Node> order_;
  NodeMap<std::uint64_t> known_;
};

}  // namespace

Node fuse_product_pairs(Node kernel) {
  const std::vector<Node> order = toposort(kernel);
  auto is_pair = [](Node n) {
    return n.is(Op::Add) && is_wide_float(n) && n.arg(0).is(Op::Mul) && n.arg(1).is(Op::Mul);
  };
  if (std::ranges::none_of(order, is_pair)) return kernel;
  const NodeMap<std::uint32_t> uses = use_counts(order);
  NodeMap<Node> done;
  return rebuilt(order, done, [&](Node n, std::span<const Node> args) {
    if (!is_pair(n) || *uses.find(n.arg(0)) != 1 || *uses.find(n.arg(1)) != 1) return Node();
    const Node product = n.arg(0);
    return apply(Op::Fma, *done.find(product.arg(0)), *done.find(product.arg(1)),
                 args[planted(Fault::FusePairs) ? 0 : 1]);
  });
}

Node fuse_multiply_add(Node kernel, bool sums_only) {
  std::vector<Node> order = toposort(kernel);
  NodeMap<std::uint32_t> uses = use_counts(order);
  ValueNumbers numbers(order);
  NodeMap<Node> done;
  return rebuilt(order, done, [&](Node n, std::span<const Node> args) {
    if (!n.is(Op::Add)) return Node();
    Node result;
    if (is_wide_float(n)) {
      auto fusible = [&](std::size_t i) {
        if (sums_only && !is_accumulator(n.arg(1 - i))) return false;
        return n.arg(i).is(Op::Mul) && *uses.find(n.arg(i)) == 1;
      };
      std::size_t i = fusible(0) ? 0 : 1;
      if (fusible(0) && fusible(1) && numbers.of(n.arg(1)) < numbers.of(n.arg(0))) i = 1;
      if (fusible(i)) {
        Node x = *done.find(n.arg(i).arg(0)), y = *done.find(n.arg(i).arg(1));
        result = apply(Op::Fma, x, y, planted(Fault::FuseAddend) ? x : args[1 - i]);
      }
    }
    for (std::size_t i = 0; i < 2; ++i) {
      Node product = n.arg(i);
      // A unit that keeps few bits of its sums adds up one step's products only.
      if (product.is(Op::PanelDot) && *uses.find(product) == 1 && is_zero(product.arg(4)) &&
          dot_kind(product).sum_bits == 0) {
        SmallVector<Node, 8> operands;
        for (std::size_t a = 0; a < 4; ++a) operands.push_back(*done.find(product.arg(a)));
        operands.push_back(args[1 - i]);
        result = product.with_args(operands);
        break;
      }
      if (!product.is(Op::Dot) || *uses.find(product) != 1 || !is_zero(product.arg(2))) continue;
      if (dot_kind(product).sum_bits > 0 && dot_shape(product).is_tile()) continue;
      result = dot(dot_kind(product), *done.find(product.arg(0)), *done.find(product.arg(1)), args[1 - i],
                   dot_shape(product));
      break;
    }
    return result;
  });
}

}  // namespace lathe
