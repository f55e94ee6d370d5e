#include "codegen/fuse_multiply_add.h"

#include <vector>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/walk.h"

namespace lathe {
namespace {

bool is_wide_float(Node n) {
  return n.dtype().scalar == Scalar::Float32 || n.dtype().scalar == Scalar::Float64;
}

bool is_zero(Node n) {
  if (n.is(Op::Splat)) n = n.arg(0);
  return n.is_const() && (n.dtype().is_float() ? n.float_attr() == 0 : n.int_attr() == 0);
}

}  // namespace

Node fuse_multiply_add(Node kernel) {
  std::vector<Node> order = toposort(kernel);
  NodeMap<std::uint32_t> uses = use_counts(order);
  NodeMap<Node> done;
  done.reserve(order.size());
  for (Node n : order) {
    SmallVector<Node, 16> args;
    for (Node a : n.args()) args.push_back(*done.find(a));
    Node result = n.arg_count() == 0 ? n : rebuild(n, args);
    if (n.is(Op::Add) && is_wide_float(n)) {
      for (std::size_t i = 0; i < 2; ++i) {
        Node product = n.arg(i);
        if (!product.is(Op::Mul) || *uses.find(product) != 1) continue;
        Node x = *done.find(product.arg(0)), y = *done.find(product.arg(1));
        result = apply(Op::Fma, x, y, args[1 - i]);
        break;
      }
    }
    if (n.is(Op::Add))
      for (std::size_t i = 0; i < 2; ++i) {
        Node product = n.arg(i);
        if (!product.is(Op::Dot) || *uses.find(product) != 1 || !is_zero(product.arg(2))) continue;
        result = dot(dot_kind(product), *done.find(product.arg(0)), *done.find(product.arg(1)), args[1 - i],
                     dot_shape(product));
        break;
      }
    done.try_emplace(n, result);
  }
  return *done.find(kernel);
}

}  // namespace lathe
