#include "schedule/running_maximum.h"

#include <algorithm>
#include <limits>

#include "ir/build.h"
#include "ir/shape.h"

namespace lathe {
namespace {

bool is_reduce_over(Node n, Op op, Node of, std::int64_t axis) {
  return n.is(Op::Reduce) && n.attr().kind == Attr::Kind::Data && n.ints().size() == 2 &&
         reduce_op(n) == op && n.ints()[1] == axis && n.arg(0) == of;
}

int used(const NodeMap<int>& uses, Node n) {
  const int* count = uses.find(n);
  return count == nullptr ? 0 : *count;
}

// The reduce that a value repeats along the axis, or null.
Node repeated(Node n, const NodeMap<int>& uses) {
  while (n.is(Op::Expand) || n.is(Op::Reshape)) {
    if (used(uses, n) != 1) return Node();
    n = n.arg(0);
  }
  return n.is(Op::Reduce) && used(uses, n) == 1 ? n : Node();
}

// The sum that `n` divides by, repeated along the axis, or null: e / sum, or e * (1 / sum) in either order.
Node divided_by(Node n, Node* e, const NodeMap<int>& uses) {
  if (n.is(Op::Div)) {
    *e = n.arg(0);
    return repeated(n.arg(1), uses);
  }
  if (!n.is(Op::Mul)) return Node();
  const std::size_t at = n.arg(0).is(Op::Exp2) ? 1 : 0;
  *e = n.arg(1 - at);
  Node inverse = n.arg(at);
  while ((inverse.is(Op::Expand) || inverse.is(Op::Reshape)) && used(uses, inverse) == 1)
    inverse = inverse.arg(0);
  return inverse.is(Op::Recip) && used(uses, inverse) == 1 ? repeated(inverse.arg(0), uses) : Node();
}

// Whether `weights` is exp2((s - max s) * c) / its sum over one axis; fills in what it is made of.
bool match_weights(Node weights, const NodeMap<int>& uses, SoftmaxSum& out) {
  Node e, total = divided_by(weights, &e, uses);
  if (!total || !e.is(Op::Exp2) || used(uses, e) != 2 || total.ints().size() != 2) return false;
  out.axis = total.ints()[1];
  if (!is_reduce_over(total, Op::Add, e, out.axis)) return false;
  Node shifted = e.arg(0);
  if (used(uses, shifted) != 1) return false;
  if (shifted.is(Op::Mul)) {
    std::size_t at = shifted.arg(1).is_const() ? 1 : 0;
    out.scale = shifted.arg(at);
    if (!out.scale.is_const() || !(out.scale.const_float() > 0)) return false;
    shifted = shifted.arg(1 - at);
    if (used(uses, shifted) != 1) return false;
  }
  Node subtracted;
  if (shifted.is(Op::Sub)) {
    out.scores = shifted.arg(0), subtracted = shifted.arg(1);
  } else if (shifted.is(Op::Add)) {  // x - y as x + -y
    const std::size_t at = shifted.arg(1).is(Op::Neg) ? 1 : 0;
    if (!shifted.arg(at).is(Op::Neg) || used(uses, shifted.arg(at)) != 1) return false;
    out.scores = shifted.arg(1 - at), subtracted = shifted.arg(at).arg(0);
  } else {
    return false;
  }
  Node largest = repeated(subtracted, uses);
  return largest && is_reduce_over(largest, Op::Max, out.scores, out.axis) && used(uses, out.scores) == 2;
}

}  // namespace

std::optional<SoftmaxSum> match_softmax_sum(Node reduce, const NodeMap<int>& uses) {
  if (!reduce.is(Op::Reduce) || reduce_op(reduce) != Op::Add || reduce.ints().size() != 2)
    return std::nullopt;
  Node product = reduce.arg(0);
  if (!product.is(Op::Mul) || !product.dtype().is_float() || used(uses, product) != 1) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    SoftmaxSum out;
    out.side = side;
    Node n = product.arg(side);
    while ((is_movement(n.op()) || n.is(Op::Cast)) && used(uses, n) == 1) {
      if (n.is(Op::Cast))
        out.casts.insert(out.casts.begin(), n.dtype());
      else
        out.movements.push_back(n);
      n = n.arg(0);
    }
    if (used(uses, n) == 1 && match_weights(n, uses, out)) return out;
  }
  return std::nullopt;
}

std::int64_t fold_tile(Node extent) {
  // Long enough that rescaling is rare, short enough that a tile of scores stays in the nearest cache.
  // In whole vectors: the few steps beyond the end of the axis cost less than a tile's ragged end would.
  constexpr std::int64_t kShortest = 64, kLongest = 128, kVectors = 16;
  const std::int64_t n = extent.hi();
  if (n <= kLongest) return std::max<std::int64_t>(n, 1);
  if (!extent.is_const()) return kShortest;
  std::int64_t best = kLongest, least = n;
  for (std::int64_t t = kLongest; t >= kShortest; t -= kVectors) {
    const std::int64_t wasted = (n + t - 1) / t * t - n;
    if (wasted < least) least = wasted, best = t;
  }
  return best;
}

std::int64_t unit_fold_tile(std::int64_t outputs) {
  constexpr std::int64_t kWide = 128;  // so many outputs leave registers for half as many scores
  return outputs > kWide ? kWide / 2 : kWide;
}

namespace {

bool is_lowest(Node n) { return n.is_const() && n.const_float() == -std::numeric_limits<double>::infinity(); }

// Scores without the positive factor that all of them have, which is multiplied to `factor`.
Node without_factor(Node scores, double& factor) {
  if (scores.is(Op::Mul)) {
    const std::size_t at = scores.arg(1).is_const() ? 1 : 0;
    if (!scores.arg(at).is_const() || !(scores.arg(at).const_float() > 0)) return scores;
    factor *= scores.arg(at).const_float();
    return scores.arg(1 - at);
  }
  if (!scores.is(Op::Where)) return scores;
  for (std::size_t masked : {std::size_t{1}, std::size_t{2}}) {
    if (!is_lowest(scores.arg(masked))) continue;
    Node open = without_factor(scores.arg(3 - masked), factor);
    return masked == 1 ? where(scores.arg(0), scores.arg(1), open)
                       : where(scores.arg(0), open, scores.arg(2));
  }
  return scores;
}

}  // namespace

Node running_maximum(const RunningMaximum& given, std::int64_t panel) {
  RunningMaximum parts = given;
  if (parts.scales_late) {
    double factor = parts.scale ? parts.scale.const_float() : 1;
    parts.scores = without_factor(parts.scores, factor);
    parts.scale = float_const(parts.scores.dtype(), factor);
  }
  const DType dtype = parts.scores.dtype();
  const std::int64_t size = parts.fill.arg(0).hi();
  Node low = element_const(dtype, unit_of(Op::Max, dtype)), zero = zero_of(dtype);
  auto carry = [](DType d, std::int64_t component) {
    AttrData name{"", {0, component, 0}};
    return intern(Op::Carry, d, {}, Attr::of(name));
  };
  SmallVector<Node, 8> around(parts.outside.begin(), parts.outside.end());
  around.push_back(parts.tile);
  auto filled = [&](std::int64_t id, Node at, Node value) {
    Node memory = define(value.dtype(), id, size, Space::Register);
    Node effect = end(store(after(memory, around), at, value), {&at, 1});
    return after(memory, {&effect, 1});
  };
  auto over = [](Op op, Node element, Node range) { return reduce_ranges(op, element, {&range, 1}); };
  auto power = [&](Node x) { return apply(Op::Exp2, parts.scale ? x * parts.scale : x); };

  Node scores = filled(panel, parts.fill, parts.scores);
  Node m = carry(dtype, 0), l = carry(dtype, 1);
  Node m_new = max(m, over(Op::Max, load(scores, parts.largest), parts.largest));
  Node shift = where(equal(m_new, low), zero, m_new);
  Node score = load(scores, parts.weigh);
  Node weights =
      filled(panel + 1, parts.weigh,
             parts.scales_late ? apply(Op::Exp2, score * parts.scale + apply(Op::Neg, shift * parts.scale))
                               : power(score - shift));
  Node again = power(m - shift);
  Node l_new = l * again + over(Op::Add, load(weights, parts.total), parts.total);
  Node weight = load(weights, parts.term);
  for (DType d : parts.casts) weight = cast(weight, d);
  const DType wide = parts.values.dtype();
  Node o = carry(wide, 2);
  Node o_new = o * cast(again, wide) + over(Op::Add, weight * parts.values, parts.term);
  AttrData name{"", {0, 3, 0}};
  Node fold = intern(Op::Fold, dtypes::Void, {low, zero, zero_of(wide), m_new, l_new, o_new, parts.tile},
                     Attr::of(name));
  auto get = [&](DType d, std::int64_t i) { return intern(Op::Get, d, {fold}, Attr::of(i)); };
  return get(wide, 2) / cast(get(dtype, 1), wide);
}

}  // namespace lathe
