#include "tensor/reduce_gradient.h"

#include "tensor/impl.h"

namespace lathe {
namespace {

// How many elements of each group, in a dtype that holds how many there can be.
Node count_of(Node which, DType dtype, const Grouping& groups) {
  return groups.combined(Op::Add, cast(which, ir_dtype(sum_accumulator(data_type(dtype)))));
}

// The elements that are the extreme share the gradient equally.
Node extreme_gradient(Node g, Node x, Node out, const Grouping& groups) {
  Node hit = equal(x, groups.of_element(out));
  Node count = count_of(hit, g.dtype(), groups);
  Node share = cast(cast(g, count.dtype()) / count, g.dtype());
  return where(hit, groups.of_element(share), zero_of(g.dtype()));
}

// d(prod)/dx_i is the product of the others. With P the product of the elements that are not 0 and Z the
// number of zeros: P / x_i where Z = 0, P at the zero where Z = 1, else 0.
Node product_gradient(Node g, Node x, const Grouping& groups) {
  const DType d = x.dtype();
  Node is_zero = equal(x, zero_of(d)), others = where(is_zero, number(d, 1), x);
  Node product = groups.of_element(groups.combined(Op::Mul, others));
  Node zeros = groups.of_element(count_of(is_zero, d, groups));
  Node at_zero = where(equal(zeros, number(zeros.dtype(), 1)), product, zero_of(d));
  Node elsewhere = where(equal(zeros, zero_of(zeros.dtype())), product / others, zero_of(d));
  return groups.of_element(g) * where(is_zero, at_zero, elsewhere);
}

}  // namespace

Node grouped_gradient(Op op, Node g, Node x, Node out, const Grouping& groups) {
  switch (op) {
    case Op::Add: return groups.of_element(g);
    case Op::Max:
    case Op::Min: return extreme_gradient(g, x, out, groups);
    case Op::Mul: return product_gradient(g, x, groups);
    default: return Node();
  }
}

}  // namespace lathe
