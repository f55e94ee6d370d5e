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

// Whether a node has so many users, as far as anyone asks.
bool has_users(const NodeMap<int>* uses, Node n, int count) {
  if (uses == nullptr) return true;
  const int* users = uses->find(n);
  return (users == nullptr ? 0 : *users) == count;
}

// What a value repeats along an axis that its shape has with size 1, or null. A reshape below is one that
// another undoes: a total for every row of a square matrix, reshaped, would be one for every column.
Node repeats(Node n, const NodeMap<int>* uses) {
  auto below = [&](Op op) {
    while (n.is(op) && has_users(uses, n, 1)) n = n.arg(0);
  };
  below(Op::Expand);
  Node shape = n.shape_node();
  below(Op::Reshape);
  return n.shape_node() == shape ? n : Node();
}

// The reduce that a value repeats along the axis, or null.
Node repeated(Node n, const NodeMap<int>* uses) {
  n = repeats(n, uses);
  return n && n.is(Op::Reduce) && has_users(uses, n, 1) ? n : Node();
}

// The sum that `n` divides by, repeated along the axis: e / sum, or e * (1 / sum) in either order.
bool divided(Node n, const NodeMap<int>* uses, Softmax& out) {
  if (n.is(Op::Div)) {
    out.power = n.arg(0);
    out.total = repeated(n.arg(1), uses);
  } else if (n.is(Op::Mul)) {
    const std::size_t at = n.arg(0).is(Op::Exp2) ? 1 : 0;
    out.power = n.arg(1 - at);
    out.reciprocal = repeats(n.arg(at), uses);
    if (!out.reciprocal || !out.reciprocal.is(Op::Recip) || !has_users(uses, out.reciprocal, 1)) return false;
    out.total = repeated(out.reciprocal.arg(0), uses);
  }
  return static_cast<bool>(out.total);
}

}  // namespace

std::optional<Softmax> match_softmax(Node node, const NodeMap<int>* uses) {
  Softmax out;
  out.weights = node;
  if (!divided(node, uses, out) || !out.power.is(Op::Exp2) || !has_users(uses, out.power, 2) ||
      out.total.ints().size() != 2)
    return std::nullopt;
  out.axis = out.total.ints()[1];
  if (!is_reduce_over(out.total, Op::Add, out.power, out.axis)) return std::nullopt;
  Node shifted = out.power.arg(0);
  if (!has_users(uses, shifted, 1)) return std::nullopt;
  if (shifted.is(Op::Mul)) {
    std::size_t at = shifted.arg(1).is_const() ? 1 : 0;
    out.scale = shifted.arg(at);
    if (!out.scale.is_const() || !(out.scale.const_float() > 0)) return std::nullopt;
    shifted = shifted.arg(1 - at);
    if (!has_users(uses, shifted, 1)) return std::nullopt;
  }
  Node subtracted;
  if (shifted.is(Op::Sub)) {
    out.scores = shifted.arg(0), subtracted = shifted.arg(1);
  } else if (shifted.is(Op::Add)) {  // x - y as x + -y
    const std::size_t at = shifted.arg(1).is(Op::Neg) ? 1 : 0;
    if (!shifted.arg(at).is(Op::Neg) || !has_users(uses, shifted.arg(at), 1)) return std::nullopt;
    out.scores = shifted.arg(1 - at), subtracted = shifted.arg(at).arg(0);
  } else {
    return std::nullopt;
  }
  // A softmax does not depend on the subtracted maximum, so its gradient is the same with or without Detach.
  subtracted = repeats(subtracted, uses);
  if (subtracted && subtracted.is(Op::Detach) && has_users(uses, subtracted, 1))
    subtracted = subtracted.arg(0);
  if (!subtracted) return std::nullopt;
  out.largest = repeated(subtracted, uses);
  if (!out.largest || !is_reduce_over(out.largest, Op::Max, out.scores, out.axis) ||
      !has_users(uses, out.scores, 2))
    return std::nullopt;
  return out;
}

void follow_operand(SoftmaxSum& sum, Node operand) {
  for (; is_movement(operand.op()) || operand.is(Op::Cast); operand = operand.arg(0))
    if (operand.is(Op::Cast))
      sum.casts.insert(sum.casts.begin(), operand.dtype());
    else
      sum.movements.push_back(operand);
  sum.panel = operand;
}

std::optional<std::size_t> axis_below(Node movement, std::size_t axis) {
  std::span<const Node> from = movement.arg(0).shape(), to = movement.shape();
  if (axis >= to.size()) return std::nullopt;  // a number, which has no axes, beside a value that has some
  if (movement.is(Op::Permute)) return static_cast<std::size_t>(movement.ints()[axis]);
  if (movement.is(Op::Expand))
    return from.size() == to.size() && from[axis] == to[axis] ? std::optional(axis) : std::nullopt;
  if (!movement.is(Op::Reshape)) return std::nullopt;
  auto product = [](std::span<const Node> sizes) {
    Node n = index_const(1);
    for (Node size : sizes) n = n * size;
    return n;
  };
  for (std::size_t a = 0; a < from.size(); ++a)
    if (from[a] == to[axis] && product(from.first(a)) == product(to.first(axis))) return a;
  return std::nullopt;
}

std::optional<SoftmaxSum> match_softmax_sum(Node reduce, const NodeMap<int>* uses) {
  if (!reduce.is(Op::Reduce) || reduce_op(reduce) != Op::Add || reduce.ints().size() != 2)
    return std::nullopt;
  Node product = reduce.arg(0);
  if (!product.is(Op::Mul) || !product.dtype().is_float() || !has_users(uses, product, 1))
    return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    SoftmaxSum out;
    out.side = side;
    follow_operand(out, product.arg(side));
    bool alone = has_users(uses, out.panel, 1);
    for (Node n = product.arg(side); n != out.panel; n = n.arg(0)) alone &= has_users(uses, n, 1);
    if (!alone) continue;
    std::optional<std::size_t> axis = static_cast<std::size_t>(reduce.ints()[1]);
    for (Node m : out.movements) axis = axis ? axis_below(m, *axis) : axis;
    if (std::optional<Softmax> softmax = match_softmax(out.panel, uses);
        softmax && axis == static_cast<std::size_t>(softmax->axis)) {
      out.softmax = *softmax;
      out.panel = softmax->scores;
      return out;
    }
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

std::int64_t unit_fold_tile(FoldForm form, std::int64_t outputs) {
  constexpr std::int64_t kWide = 128;  // so many outputs leave registers for half as many scores
  // Of gradients: scores and what they are multiplied with, and two sums of outputs.
  return form == FoldForm::Sum || outputs > kWide ? kWide / 2 : kWide;
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

namespace {

// Memory of the kernel's own and running values, as the parts of a fold have them.
class FoldBuilder {
 public:
  explicit FoldBuilder(const RunningMaximum& parts)
      : size_(parts.fill.arg(0).hi()), tile_(parts.tile), around_(parts.outside) {
    around_.push_back(parts.tile);
  }
  // A panel, once it holds `value` for every step of the loop `at`.
  Node filled(std::int64_t id, Node at, Node value) const {
    Node memory = define(value.dtype(), id, size_, Space::Register);
    Node effect = end(store(after(memory, around_), at, value), {&at, 1});
    return after(memory, {&effect, 1});
  }
  static Node carry(DType d, std::int64_t component) {
    AttrData name{"", {0, component, 0}};
    return intern(Op::Carry, d, {}, Attr::of(name));
  }
  void add(Node first, Node step) {
    first_.push_back(first);
    steps_.push_back(step);
  }
  Node get(std::size_t component) const {
    SmallVector<Node, 8> args(first_.begin(), first_.end());
    args.append(steps_.begin(), steps_.end());
    args.push_back(tile_);
    AttrData name{"", {0, static_cast<std::int64_t>(first_.size()), 0}};
    Node fold = intern(Op::Fold, dtypes::Void, args, Attr::of(name));
    return intern(Op::Get, first_[component].dtype(), {fold}, Attr::of(static_cast<std::int64_t>(component)));
  }

 private:
  std::int64_t size_;
  Node tile_;
  SmallVector<Node, 8> around_;
  SmallVector<Node, 4> first_, steps_;
};

Node over(Op op, Node element, Node range) { return reduce_ranges(op, element, {&range, 1}); }

Node weighted(Node panel, const RunningMaximum& parts) {
  Node weight = load(panel, parts.term);
  for (DType d : parts.casts) weight = cast(weight, d);
  return over(Op::Add, weight * parts.values, parts.term);
}

Node plain_sum(const RunningMaximum& parts, std::int64_t panel) {
  FoldBuilder fold(parts);
  const DType wide = parts.values.dtype();
  fold.add(zero_of(wide),
           FoldBuilder::carry(wide, 0) + weighted(fold.filled(panel, parts.fill, parts.scores), parts));
  return fold.get(0);
}

}  // namespace

Node running_maximum(const RunningMaximum& given, std::int64_t panel) {
  if (given.form == FoldForm::Sum) return plain_sum(given, panel);
  RunningMaximum parts = given;
  Node common;  // factor of all scores
  if (parts.scales_late) {
    double factor = 1;
    parts.scores = without_factor(parts.scores, factor);
    if (factor != 1) common = float_const(parts.scores.dtype(), factor);
    if (parts.scale) factor *= parts.scale.const_float();
    parts.scale = float_const(parts.scores.dtype(), factor);
  }
  const DType dtype = parts.scores.dtype();
  Node low = element_const(dtype, unit_of(Op::Max, dtype)), zero = zero_of(dtype);
  FoldBuilder fold(parts);
  auto power = [&](Node x) { return apply(Op::Exp2, parts.scale ? x * parts.scale : x); };

  Node scores = fold.filled(panel, parts.fill, parts.scores);
  Node m = FoldBuilder::carry(dtype, 0), l = FoldBuilder::carry(dtype, 1);
  Node m_new = max(m, over(Op::Max, load(scores, parts.largest), parts.largest));
  fold.add(low, m_new);
  // Scores have their factor in the graph, and the largest of them too.
  if (parts.form == FoldForm::Largest) return common ? fold.get(0) * common : fold.get(0);
  Node shift = where(equal(m_new, low), zero, m_new);
  Node score = load(scores, parts.weigh);
  Node weights =
      fold.filled(panel + 1, parts.weigh,
                  parts.scales_late ? apply(Op::Exp2, score * parts.scale + neg(shift * parts.scale))
                                    : power(score - shift));
  Node again = power(m - shift);
  fold.add(zero, l * again + over(Op::Add, load(weights, parts.total), parts.total));
  if (parts.form == FoldForm::Total) return fold.get(1);
  const DType wide = parts.values.dtype();
  fold.add(zero_of(wide), FoldBuilder::carry(wide, 2) * cast(again, wide) + weighted(weights, parts));
  return fold.get(2) / cast(fold.get(1), wide);
}

}  // namespace lathe
