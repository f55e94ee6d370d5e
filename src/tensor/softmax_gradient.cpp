#include "tensor/softmax_gradient.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tensor/impl.h"

namespace lathe {
namespace {

// Whether the sum knows the weights as well as they are computed. Weights of 32 bits may be rounded to 16 on
// the way, as attention does, whose result is no better than that; a sum of fewer bits than the softmax would
// round its gradient to them.
bool as_precise(Node sum, const SoftmaxSum& of) {
  const int bytes = of.softmax.weights.dtype().bytes();
  auto wide = [&](DType d) { return d.bytes() >= bytes; };
  return wide(sum.dtype()) && (bytes <= dtypes::Float32.bytes() || std::ranges::all_of(of.casts, wide));
}

Node summed(Node x, const Axes& axes) { return axes.empty() ? x : reduce_axes(Op::Add, x, axes); }

// What the movement did to weights, undone to a value that has size 1 along `axis`: repeated elements are
// summed up. Null where the axis is not one of the operand's.
Node undone(Node movement, Node x, std::size_t& axis) {
  Node below = movement.arg(0);
  const std::optional<std::size_t> from = axis_below(movement, axis);
  if (!from) return Node();
  axis = *from;
  if (movement.is(Op::Permute)) {
    Axes inverse(movement.ints().size(), 0);
    for (std::size_t i = 0; i < inverse.size(); ++i)
      inverse[static_cast<std::size_t>(movement.ints()[i])] = static_cast<std::int64_t>(i);
    return permute_to(x, inverse);
  }
  Nodes sizes(below.shape().begin(), below.shape().end());
  sizes[axis] = index_const(1);
  if (movement.is(Op::Reshape)) return reshape_to(x, sizes);
  Axes repeated;  // by an Expand
  for (std::size_t a = 0; a < below.rank(); ++a)
    if (sizes[a] != x.shape()[a]) repeated.push_back(static_cast<std::int64_t>(a));
  return summed(x, repeated);
}

// The dtype of 16 bits that a factor had before it was widened; nothing where it had none.
std::optional<DType> before_widening(Node factor) {
  for (; is_movement(factor.op()) || factor.is(Op::Cast); factor = factor.arg(0))
    if (factor.dtype().is_float() && factor.dtype().bits() == 16) return factor.dtype();
  if (factor.dtype().is_float() && factor.dtype().bits() == 16) return factor.dtype();
  return std::nullopt;
}

}  // namespace

SoftmaxSums::SoftmaxSums(std::span<const Node> order) {
  NodeMap<int> uses;
  for (Node n : order)
    for (std::size_t i = 0; i < n.arg_count(); ++i)
      if (i == 0 || n.arg(i) != n.arg(i - 1)) ++uses[n.arg(i)];
  for (Node n : order) {
    std::optional<SoftmaxSum> sum = match_softmax_sum(n, &uses);
    if (!sum || !as_precise(n, *sum)) continue;
    sums_.try_emplace(n, *sum);
    if (!sum->casts.empty() && sum->casts[0].bits() == 16) find_products(sum->softmax.scores, uses);
  }
}

// Those that scores are made of, masked, scaled and moved; none that something else needs too.
void SoftmaxSums::find_products(Node scores, const NodeMap<int>& uses) {
  std::vector<Node> left{scores};
  NodeMap<char> seen;
  while (!left.empty()) {
    Node n = left.back();
    left.pop_back();
    if (!n.dtype().is_float() || !seen.try_emplace(n, 1).second) continue;
    if (n.is(Op::Reduce) && reduce_op(n) == Op::Add && n.arg(0).is(Op::Mul) && *uses.find(n) == 1) {
      const std::optional<DType> x = before_widening(n.arg(0).arg(0)), y = before_widening(n.arg(0).arg(1));
      if (x && x == y && n.dtype() == dtypes::Float32) products_.try_emplace(n, *x);
    }
    if (is_movement(n.op()))
      left.push_back(n.arg(0));
    else if (is_elementwise(n.op()))
      for (Node a : n.args()) left.push_back(a);
  }
}

Node SoftmaxSums::rounded(Node sum, Node g) const {
  const DType* narrow = products_.find(sum);
  return narrow == nullptr ? g : cast(cast(g, *narrow), g.dtype());
}

void SoftmaxSums::sum_has_gradient(Node sum, Node g) {
  const SoftmaxSum* found = sums_.find(sum);
  if (found == nullptr) return;
  Node x = g * sum;
  auto axis = static_cast<std::size_t>(sum.ints()[1]);
  for (Node movement : found->movements)
    if (x = undone(movement, x, axis); !x) return;
  const Softmax& softmax = found->softmax;
  Nodes row(softmax.weights.shape().begin(), softmax.weights.shape().end());
  row[static_cast<std::size_t>(softmax.axis)] = index_const(1);
  if (x.shape_node() != dims(row)) return;
  rows_.try_emplace(softmax.weights, Row{*found, cast(x, softmax.weights.dtype())});
}

std::optional<SoftmaxSums::Scores> SoftmaxSums::scores_gradient(Node weights, Node g) const {
  const Row* row = rows_.find(weights);
  if (row == nullptr || g.dtype() != weights.dtype()) return std::nullopt;
  const Softmax& softmax = row->sum.softmax;
  // The sum was not rounded to the dtype of the weights that it was made of, so neither may their gradient
  // be: what is left of the difference is small where a row has few keys.
  if (g.is(Op::Cast) && g.arg(0).is(Op::Cast) && g.arg(0).arg(0).dtype() == g.dtype()) g = g.arg(0).arg(0);
  Node change = weights * (g - expand_to(row->products, weights.shape()));
  // d/ds exp2(s*c) = exp2(s*c) * c * ln 2, where c is most often 1 / ln 2.
  const double factor = (softmax.scale ? softmax.scale.const_float() : 1) * std::numbers::ln2;
  if (std::abs(factor - 1) > 1e-7) change = change * number(g.dtype(), factor);
  return Scores{softmax.scores, change};
}

}  // namespace lathe
