#include "ir/machine_ops.h"

namespace lathe {

Node narrow(Node x) { return intern(Op::Narrow, dtypes::BFloat16.vec(x.dtype().lanes), {x}); }

Node table(DType element, std::span<const std::int64_t> numbers, Node index) {
  AttrData d{"", {numbers.begin(), numbers.end()}};
  return intern(Op::Table, element.vec(index.dtype().lanes), {index}, Attr::of(d));
}

Node fraction(Node x) { return intern(Op::Fraction, x.dtype(), {x}); }
Node scale(Node x, Node n) { return intern(Op::Scale, x.dtype(), {x, n}); }

}  // namespace lathe
