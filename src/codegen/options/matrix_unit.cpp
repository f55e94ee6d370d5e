#include "codegen/options/matrix_unit.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/planted.h"
#include "base/small_vector.h"
#include "codegen/kernel/lanes.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/group_ops.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "rules/simplify.h"
#include "target/matrix_units.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

// A reduce over products of two small numbers, and how a unit takes them.
struct Product {
  Node reduce;
  Node x, y;   // before they were widened or cut off to tf32; x is the one that lanes do not run along
  Node scale;  // of a sum of floats: what the products, which are integers, are multiplied with; or null
  DType sum() const { return scale ? dtypes::Int32 : reduce.dtype(); }
};
struct Fit {
  const MatrixUnit* unit = nullptr;
  bool swapped = false;       // the unit's first operand is the product's second
  bool offset = false;        // the unit's first operand has its sign bit turned
  Scalar part_x{}, part_y{};  // dtypes the parts are cast to, in the unit's order
};

// What a value was before it was widened without loss.
Node narrow(Node n) {
  while (n.is(Op::Cast) && widens(n.arg(0).dtype(), n.dtype())) n = n.arg(0);
  return n;
}

// The same where it was widened before a border of zeros was put around it: a load that gives 0 there. Where
// panels are shared by a group, whose loads are gated anyway.
Node narrow_in_border(Node n, const Target& target) {
  Node inside = narrow(n);
  if (!target.groups || !inside.is(Op::Where) || !inside.arg(2).is_const()) return inside;
  Node value = narrow(inside.arg(1)), zero = inside.arg(2);
  const bool is_zero = zero.dtype().is_float() ? zero.float_attr() == 0 : zero.int_attr() == 0;
  if (!value.is(Op::Load) || !is_zero) return inside;
  return under_gate(value, inside.arg(0), [&](Node load) { return load == value; });
}

// The ranges of a scaled sum that do not move the scale.
Nodes below_scale(const Product& p) {
  Nodes out;
  for (Node r : closed_ranges(p.reduce))
    if (!depends_on(p.scale, r)) out.push_back(r);
  return out;
}

// sum of float(x * y) * scale, x and y integers: where floats hold every sum of products that have a scale in
// common, such as those of a block of weights, they may be added before they are converted.
bool sums_are_exact(const Product& p, Node product) {
  constexpr double kExact = 1 << 24;
  double most =
      std::max(std::abs(static_cast<double>(product.lo())), std::abs(static_cast<double>(product.hi())));
  for (Node r : below_scale(p)) most *= static_cast<double>(r.arg(0).hi());
  return most <= kExact;
}

std::optional<Product> product_of(Node reduce, const Target& target) {
  Node element = reduce.arg(0);
  if (!element.is(Op::Mul)) return std::nullopt;
  Product p{reduce, narrow_in_border(element.arg(0), target), narrow_in_border(element.arg(1), target),
            Node()};
  if (p.x.dtype().bits() <= 16 && p.y.dtype().bits() <= 16) return p;
  if (Node x = before_tf32(element.arg(0)), y = before_tf32(element.arg(1)); x && y) {
    auto in_border = [&](Node n) {
      Node inside = narrow_in_border(n, target);
      return inside.dtype() == n.dtype() ? inside : n;
    };
    return Product{reduce, in_border(x), in_border(y), Node()};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    Node product = element.arg(i);
    if (product.dtype() != dtypes::Float32 || !product.is(Op::Cast)) continue;
    product = product.arg(0);
    if (!product.is(Op::Mul) || product.dtype() != dtypes::Int32) continue;
    p = {reduce, narrow(product.arg(0)), narrow(product.arg(1)), element.arg(1 - i)};
    if (p.x.dtype().bits() <= 8 && p.y.dtype().bits() <= 8 && sums_are_exact(p, product)) return p;
  }
  return std::nullopt;
}

// The largest sum of products of small numbers, or of those that were cut off to tf32.
std::optional<Product> find_product(Node kernel, const Target& target) {
  std::optional<Product> best;
  double most = 0;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add) continue;
    if (n.dtype() != dtypes::Float32 && n.dtype() != dtypes::Int32) continue;
    double steps = 1;
    for (Node r : ranges_of(n.arg(0))) steps *= typical_extent(r);
    if (steps <= most) continue;
    std::optional<Product> p = product_of(n, target);
    if (!p) continue;
    most = steps;
    best = p;
  }
  return best;
}

// Whether every value of one dtype is one of the other.
bool holds(Scalar wide, Scalar narrow_one) {
  return wide == narrow_one || (DType(wide).is_int() && widens(narrow_one, wide));
}

// Whether a factor's numbers are none that a kind of product is not for.
bool small_enough(const DotKind& kind, Node x) {
  return kind.most_x == 0 || (x.lo() >= 0 && x.hi() <= kind.most_x);
}
// A number without a sign from which a constant was taken has its offset already: what it was before.
Node before_offset(Node x) {
  const bool has = x.is(Op::Add) && x.dtype().is_int() && x.arg(1).is_const() && x.arg(0).lo() >= 0 &&
                   x.arg(1).const_int() < 0;
  return has ? x.arg(0) : Node();
}

std::vector<Fit> fits(const Product& p, const Target& target) {
  std::vector<Fit> out;
  const Scalar x = p.x.dtype().scalar, y = p.y.dtype().scalar;
  for (const std::string& name : target.units) {
    const MatrixUnit* unit = find_matrix_unit(name);
    const DotKind* kind = unit != nullptr ? find_dot_kind(unit->dot) : nullptr;
    if (kind == nullptr || DType(kind->sum) != p.sum()) continue;
    if (unit->m > 1 && p.scale) continue;
    if (unit->m > 1 && (kind->x != x || kind->y != y)) continue;
    const Node without = before_offset(p.x);
    if (holds(kind->x, x) && holds(kind->y, y) && small_enough(*kind, p.x))
      out.push_back({unit, false, false, kind->x, kind->y});
    else if (holds(kind->x, y) && holds(kind->y, x) && small_enough(*kind, p.y))
      out.push_back({unit, true, false, kind->x, kind->y});
    else if (kind->x == Scalar::UInt8 && x == Scalar::Int8 && holds(kind->y, y) &&
             (kind->most_x == 0 || (without && small_enough(*kind, without))))
      out.push_back({unit, false, true, Scalar::Int8, kind->y});
  }
  return out;
}

// Gives 0 where its gate is false, because a load does.
bool is_zero_where_gated(Node n, Node range) {
  while (n.is(Op::Cast)) n = n.arg(0);
  return n.is(Op::Load) && depends_on(n, range);
}

class WordRewriter {
 public:
  WordRewriter(const Product& product, const Fit& fit, Node range, UnitUse use, const RuleChanges& rules)
      : product_(product),
        fit_(fit),
        kind_(*find_dot_kind(fit.unit->dot)),
        range_(range),
        use_(use),
        rules_(rules) {
    const std::int64_t steps = (range.arg(0).const_int() + kind_.parts - 1) / kind_.parts;
    made_ = lathe::range(index_const(steps), range_id(range), range_kind(range));
  }

  Node made() const { return made_; }
  Node reduce() {
    Nodes below, scaled;
    for (Node r : closed_ranges(product_.reduce))
      (product_.scale && depends_on(product_.scale, r) ? scaled : below).push_back(r == range_ ? made_ : r);
    Node sum = reduce_ranges(Op::Add, element(), below);
    if (!product_.scale) return sum;
    return reduce_ranges(Op::Add, cast(sum, dtypes::Float32) * product_.scale, scaled);
  }

 private:
  // The value in step `part` of a word.
  Node part_of(Node value, int part) const {
    const bool early = planted(Fault::UnitParts) && part > 0 && part == kind_.parts - 1;
    Node index = made_ * index_const(kind_.parts) + index_const(early ? part - 1 : part);
    NodeMap<Node> map;
    map.try_emplace(range_, index);
    Node there = substitute_free(value, map);
    if (divides(value)) there = simplify(there, rules_);
    Node gate = less(index, range_.arg(0));
    if (gate.lo() == 1) return there;
    there = under_gate(there, gate, [&](Node n) { return depends_on(n, made_); });
    if (is_zero_where_gated(value, range_)) return there;
    return where(gate, there, zero_of(there.dtype()));
  }
  // Whether positions are made of quotients of the range, as those of joined ranges are: neighbours are to be
  // seen as such.
  bool divides(Node value) const {
    const std::vector<Node> nodes = toposort(value);
    return std::any_of(nodes.begin(), nodes.end(), [&](Node n) {
      return (n.is(Op::FloorDiv) || n.is(Op::FloorMod)) && depends_on(n, range_);
    });
  }
  Node word(Node value, Scalar part) const {
    if (Node whole = word_by_bits(value, part)) return whole;
    while (is_same_bits(value)) value = value.arg(0);
    const bool same_bits = value.dtype().is_int() && value.dtype().bits() == DType(part).bits();
    Nodes parts;
    for (int i = 0; i < kind_.parts; ++i)
      parts.push_back(same_bits ? part_of(value, i) : cast(part_of(value, i), DType(part)));
    return pack(parts);
  }
  // An integer of the same width with or without a sign is the same bits.
  static bool is_same_bits(Node value) {
    return (value.is(Op::Cast) || value.is(Op::Bitcast)) && value.dtype().is_int() &&
           value.arg(0).dtype().is_int() && value.dtype().bits() == value.arg(0).dtype().bits();
  }
  // One number in every part of a word.
  static Node in_each(Node bits, int width) {
    const std::int64_t ones = width == 8 ? 0x01010101 : 0x00010001;
    return cast(bits, dtypes::UInt32) * int_const(dtypes::UInt32, ones);
  }
  // Bits that are taken out of each part are taken out of the whole word at once, so that what is packed are
  // neighbours in memory.
  Node word_by_bits(Node value, Scalar part) const {
    const int width = DType(part).bits();
    if (!value.dtype().is_int() || value.dtype().bits() != width ||
        range_.arg(0).const_int() % kind_.parts != 0)
      return Node();
    if (is_same_bits(value)) return word_by_bits(value.arg(0), part);
    const DType unsigned_part = width == 8 ? dtypes::UInt8 : dtypes::UInt16;
    if (!depends_on(value, range_)) return in_each(cast(value, unsigned_part), width);
    if (value.is(Op::And) || value.is(Op::Or) || value.is(Op::Xor)) {
      Node x = word(value.arg(0), part), y = word(value.arg(1), part);
      return apply(value.op(), x, y);
    }
    // What comes from the part above is dropped.
    if (!value.is(Op::Shr) || !value.dtype().is_unsigned() || depends_on(value.arg(1), range_)) return Node();
    Node by = cast(value.arg(1), dtypes::UInt32), all = int_const(dtypes::UInt32, (1 << width) - 1);
    return apply(Op::And, apply(Op::Shr, word(value.arg(0), part), by),
                 in_each(apply(Op::Shr, all, by), width));
  }
  Node product(Node x, Node y) const {
    Node nothing = zero_of(DType(kind_.sum));
    return use_ == UnitUse::Words ? dot_by_parts(kind_, x, y, nothing, false) : dot(kind_, x, y, nothing);
  }

  // A number of a word as it is in the product.
  Node factor(Node number) const {
    return kind_.x == Scalar::Float32 ? as_tf32(number) : cast(number, DType(kind_.sum));
  }
  Node element() const {
    if (use_ == UnitUse::Loops) {
      Node total;
      for (int i = 0; i < kind_.parts; ++i) {
        Node term = factor(part_of(product_.x, i)) * factor(part_of(product_.y, i));
        total = total ? total + term : term;
      }
      return total;
    }
    Node x = fit_.swapped ? product_.y : product_.x;
    Node y = word(fit_.swapped ? product_.x : product_.y, fit_.part_y);
    if (!fit_.offset) return product(word(x, fit_.part_x), y);
    if (Node without = before_offset(x)) {
      Node taken = in_each(int_const(dtypes::UInt8, -x.arg(1).const_int()), 8);
      return apply(Op::Sub, product(word(without, fit_.part_x), y), product(taken, y));
    }
    Node bits = int_const(dtypes::UInt32, 0x80808080);
    return apply(Op::Sub, product(apply(Op::Xor, word(x, fit_.part_x), bits), y), product(bits, y));
  }

  const Product& product_;
  const Fit& fit_;
  const DotKind& kind_;
  Node range_, made_;
  UnitUse use_;
  const RuleChanges& rules_;
};

// The range whose steps fill words best; of equals the longest.
Node word_range(const Product& p, int parts) {
  Node best;
  double most = 0;
  for (Node r : closed_ranges(p.reduce)) {
    if (!r.arg(0).is_const() || range_kind(r) != RangeKind::Reduce) continue;
    if (!depends_on(p.x, r) || !depends_on(p.y, r)) continue;
    if (p.scale && depends_on(p.scale, r)) continue;
    const std::int64_t extent = r.arg(0).const_int();
    if (extent < parts) continue;
    const double used =
        static_cast<double>(extent) / static_cast<double>((extent + parts - 1) / parts * parts);
    const double worth = used + 1e-9 * static_cast<double>(std::min<std::int64_t>(extent, 1 << 20));
    if (worth > most) most = worth, best = r;
  }
  return best;
}

// The output range that moves x alone and fills rows of fragments best.
Node row_range(const Product& p, int rows) {
  Node best;
  double most = 0;
  for (Node r : ranges_of(p.reduce)) {
    if (!r.arg(0).is_const() || range_kind(r) != RangeKind::Global) continue;
    if (!depends_on(p.x, r) || depends_on(p.y, r)) continue;
    const std::int64_t extent = r.arg(0).const_int();
    const double used = static_cast<double>(extent) / static_cast<double>((extent + rows - 1) / rows * rows);
    if (used >= most) most = used, best = r;
  }
  return best;
}

// How many outputs have a part of their own of a factor. Of two with a sign the one of which there is more is
// given the offset, so that the sum that takes it back is common to many outputs, or has it already.
double outputs_moving(Node factor) {
  double n = 1;
  for (Node r : ranges_of(factor))
    if (range_kind(r) == RangeKind::Global) n *= typical_extent(r);
  return n;
}

}  // namespace

std::optional<SmallProduct> small_product(Node kernel, const Target& target) {
  const std::optional<Product> found = find_product(kernel, target);
  if (!found || found->scale) return std::nullopt;
  return SmallProduct{found->reduce, found->x, found->y};
}

std::optional<SmallProduct> small_product_of(Node reduce, const Target& target) {
  if (!reduce.is(Op::Reduce) || reduce_op(reduce) != Op::Add) return std::nullopt;
  const std::optional<Product> found = product_of(reduce, target);
  if (!found || found->scale) return std::nullopt;
  return SmallProduct{found->reduce, found->x, found->y};
}

WordSum sum_in_words(const SmallProduct& product, const MatrixUnit& unit, Node range,
                     const RuleChanges& rules) {
  const DotKind& kind = *find_dot_kind(unit.dot);
  const Product in_order{product.reduce, product.x, product.y, Node()};
  const Fit fit{&unit, false, false, kind.x, kind.y};
  WordRewriter rewriter(in_order, fit, range, UnitUse::Instruction, rules);
  return {rewriter.reduce(), rewriter.made()};
}

OrRefusal<UnitKernel> use_matrix_unit(Node kernel, const Opt& opt, const Target& target,
                                      const RuleChanges& rules) {
  auto refused = [&](const std::string& reason) { return Refusal{to_string({&opt, 1}), reason}; };
  if (target.units.empty()) return refused(fmt::format("target {} has no matrix units", target.name));
  if (opt.arg.size() < 3)
    return refused("a row, whether words may be padded, and how the unit is used are needed");
  if (opt.arg[2] < 1 || opt.arg[2] > 3)
    return refused(fmt::format(
        "use {} does not exist: 1 is the instruction, 2 its loops, 3 its words without it", opt.arg[2]));
  const std::vector<Node> ranges = all_ranges(kernel);
  if (opt.axis < 0 || static_cast<std::size_t>(opt.axis) >= ranges.size())
    return refused(fmt::format("there is no axis {}: the list has {}", opt.axis, ranges.size()));
  Node lane_range = ranges[static_cast<std::size_t>(opt.axis)];
  std::optional<Product> product = find_product(kernel, target);
  if (!product) return refused("the kernel sums no products of small numbers in float32 or int32");
  const bool scaled = static_cast<bool>(product->scale);
  if (scaled && (range_kind(lane_range) != RangeKind::Reduce || !depends_on(product->scale, lane_range)))
    return refused(fmt::format("axis {} is not a reduce that moves the scale of the products", opt.axis));
  if (scaled ? outputs_moving(product->x) < outputs_moving(product->y)
             : depends_on(product->x, lane_range) && !depends_on(product->y, lane_range))
    std::swap(product->x, product->y);
  if (!depends_on(product->y, lane_range) || depends_on(product->x, lane_range) != scaled)
    return refused(
        fmt::format("axis {} moves {}", opt.axis, scaled ? "not both factors" : "not exactly one factor"));
  const std::vector<Fit> rows = fits(*product, target);
  if (rows.empty())
    return refused(fmt::format("no matrix unit of target {} multiplies {} by {}", target.name,
                               product->x.dtype().str(), product->y.dtype().str()));
  if (opt.arg[0] < -1 || opt.arg[0] >= static_cast<std::int64_t>(rows.size()))
    return refused(fmt::format("there is no row {}: {} fit", opt.arg[0], rows.size()));
  const Fit& fit = rows[static_cast<std::size_t>(std::max<std::int64_t>(opt.arg[0], 0))];
  const int parts = find_dot_kind(fit.unit->dot)->parts;
  Node range = word_range(*product, parts);
  if (!range) return refused(fmt::format("no reduce range of constant extent has {} steps", parts));
  if (opt.arg[1] == 0 && range.arg(0).const_int() % parts != 0)
    return refused(fmt::format("{} steps are no whole words of {}", range.arg(0).const_int(), parts));
  UnitKernel made;
  made.unit = fit.unit, made.use = static_cast<UnitUse>(opt.arg[2]), made.n = lane_range;
  if (fit.unit->m > 1) {
    made.m = row_range(*product, fit.unit->m);
    if (!made.m) return refused("no output range moves the other factor alone");
  }
  WordRewriter rewriter(*product, fit, range, made.use, rules);
  NodeMap<Node> map;
  map.try_emplace(product->reduce, rewriter.reduce());
  made.kernel = substitute(kernel, map);
  made.k = rewriter.made();
  for (Node r : all_ranges(made.kernel))
    if (r == range && range != made.k)
      return refused("another value of the kernel runs along the same reduce range");
  return made;
}

std::optional<Opt> matrix_unit_option(Node kernel, Node lane_range, const Target& target, bool fragments) {
  if (target.units.empty() || !find_product(kernel, target)) return std::nullopt;
  const std::vector<Node> ranges = all_ranges(kernel);
  const auto at = std::find(ranges.begin(), ranges.end(), lane_range) - ranges.begin();
  for (std::size_t row = 0; row < target.units.size(); ++row) {
    Opt opt{OptOp::TC,
            static_cast<int>(at),
            {static_cast<std::int64_t>(row), 1, static_cast<std::int64_t>(UnitUse::Instruction)}};
    // A row that is refused does not fit, or there are not so many.
    const OrRefusal<UnitKernel> unit = use_matrix_unit(kernel, opt, target);
    if (unit && (unit->unit->m > 1) == fragments) return opt;
  }
  return std::nullopt;
}

Node split_offsets(Node kernel) {
  NodeMap<Node> map;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add || !n.dtype().is_int() || !n.arg(0).is(Op::Sub))
      continue;
    if (!n.arg(0).arg(0).is(Op::Dot) || !n.arg(0).arg(1).is(Op::Dot)) continue;
    map.try_emplace(n, apply(Op::Sub, reduce_ranges(Op::Add, n.arg(0).arg(0), closed_ranges(n)),
                             reduce_ranges(Op::Add, n.arg(0).arg(1), closed_ranges(n))));
  }
  return map.empty() ? kernel : substitute(kernel, map);
}

}  // namespace lathe
