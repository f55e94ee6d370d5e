#include "schedule/spread_sums.h"

#include <algorithm>
#include <cmath>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/shape.h"

namespace lathe {
namespace {

bool is_sum(Node n) {
  return n.is(Op::Reduce) && n.attr().kind == Attr::Kind::Data && reduce_op(n) == Op::Add;
}
Node below_reshapes(Node n) {
  while (n.is(Op::Reshape)) n = n.arg(0);
  return n;
}

// The sum of integers that `n` is in floats, or null where there is none or it may round.
Node exact_sum(Node n) {
  Node c = below_reshapes(n);
  if (!c.is(Op::Cast) || (c.dtype() != dtypes::Float32 && c.dtype() != dtypes::Float64)) return Node();
  Node sum = below_reshapes(c.arg(0));
  if (!is_sum(sum) || !sum.dtype().is_int() || numel_max(sum) == 0) return Node();
  for (Node d : sum.arg(0).shape())
    if (!d.is_const()) return Node();
  const double most = std::max(std::abs(static_cast<double>(sum.arg(0).lo())),
                               std::abs(static_cast<double>(sum.arg(0).hi())));
  const double terms = static_cast<double>(numel_max(sum.arg(0))) / static_cast<double>(numel_max(sum));
  return most * terms <= std::ldexp(1.0, c.dtype() == dtypes::Float32 ? 24 : 53) ? sum : Node();
}

// The axes of the sum's operand that the axes of a value with its elements are: all, or all that were not
// summed. Empty where the value has another shape.
SmallVector<std::int64_t, 8> axes_of(Node value, Node sum) {
  std::span<const std::int64_t> summed = sum.ints().subspan(1);
  SmallVector<std::int64_t, 8> all, kept;
  for (std::int64_t a = 0; a < static_cast<std::int64_t>(sum.rank()); ++a) {
    all.push_back(a);
    if (std::find(summed.begin(), summed.end(), a) == summed.end()) kept.push_back(a);
  }
  for (const auto& axes : {all, kept}) {
    bool same = axes.size() == value.rank();
    for (std::size_t i = 0; same && i < axes.size(); ++i)
      same = value.shape()[i] == sum.shape()[static_cast<std::size_t>(axes[i])];
    if (same) return axes;
  }
  return {};
}

}  // namespace

Node spread_sum(Node reduce) {
  if (!is_sum(reduce) || !reduce.arg(0).is(Op::Mul)) return reduce;
  for (std::size_t side = 0; side < 2; ++side) {
    Node value = reduce.arg(0).arg(side), scale = reduce.arg(0).arg(1 - side), sum = exact_sum(value);
    if (!sum || value.dtype() != reduce.dtype()) continue;
    const SmallVector<std::int64_t, 8> axes = axes_of(value, sum);
    if (axes.empty()) continue;
    SmallVector<std::int64_t, 8> over(sum.ints().begin() + 1, sum.ints().end());
    for (std::int64_t axis : reduce.ints().subspan(1)) over.push_back(axes[static_cast<std::size_t>(axis)]);
    std::sort(over.begin(), over.end());
    over.resize(static_cast<std::size_t>(std::unique(over.begin(), over.end()) - over.begin()));
    Node terms = cast(sum.arg(0), reduce.dtype());
    if (scale.rank() > 0) scale = expand(reshape(scale, sum.shape()), terms.shape());
    return reshape(reduce_axes(Op::Add, apply(Op::Mul, terms, scale), over), reduce.shape());
  }
  return reduce;
}

}  // namespace lathe
