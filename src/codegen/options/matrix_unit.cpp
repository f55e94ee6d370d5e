#include "codegen/options/matrix_unit.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "codegen/kernel/lanes.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/group_ops.h"
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
  WordRewriter(const Product& product, const Fit& fit, Node range, UnitUse use)
      : product_(product), fit_(fit), kind_(*find_dot_kind(fit.unit->dot)), range_(range), use_(use) {
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
    Node index = made_ * index_const(kind_.parts) + index_const(part);
    NodeMap<Node> map;
    map.try_emplace(range_, index);
    Node there = substitute_free(value, map);
    if (divides(value)) there = simplify(there, {});
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
    const bool same_bits = value.dtype().is_int() && value.dtype().bits() == DType(part).bits();
    Nodes parts;
    for (int i = 0; i < kind_.parts; ++i)
      parts.push_back(same_bits ? part_of(value, i) : cast(part_of(value, i), DType(part)));
    return pack(parts);
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
    if (value.is(Op::Cast) && value.arg(0).dtype().is_int() && value.arg(0).dtype().bits() == width)
      return word_by_bits(value.arg(0), part);
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

  // A number of a word as it stands in the product.
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

// How many output ranges move a factor. Of two with a sign the one that more of them move is given the
// offset, so that the sum that takes it back is common to many outputs.
int outputs_moving(Node factor) {
  int n = 0;
  for (Node r : ranges_of(factor)) n += range_kind(r) == RangeKind::Global;
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

WordSum sum_in_words(const SmallProduct& product, const MatrixUnit& unit, Node range) {
  const DotKind& kind = *find_dot_kind(unit.dot);
  const Product in_order{product.reduce, product.x, product.y, Node()};
  const Fit fit{&unit, false, false, kind.x, kind.y};
  WordRewriter rewriter(in_order, fit, range, UnitUse::Instruction);
  return {rewriter.reduce(), rewriter.made()};
}

OrRefusal<UnitKernel> use_matrix_unit(Node kernel, const Opt& opt, const Target& target) {
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
    return refused(fmt::format("axis {} is no reduce that moves the scale of the products", opt.axis));
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
  UnitKernel made{Node(), fit.unit, static_cast<UnitUse>(opt.arg[2]), Node(), lane_range, Node(), {}, {}};
  if (fit.unit->m > 1) {
    made.m = row_range(*product, fit.unit->m);
    if (!made.m) return refused("no output range moves the other factor alone");
  }
  WordRewriter rewriter(*product, fit, range, made.use);
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

namespace {

// How far an index moves with a range, where it does so evenly.
bool moves_by(Node index, Node range, std::int64_t stride) {
  std::int64_t found = 0;
  return is_affine(index, range, found) && found == stride;
}

struct Fragments {
  Node m, n, k;  // ranges inside a fragment
};

// Whether both factors of a product are panels in which fragments lie one after the other.
std::optional<Fragments> find_fragments(Node reduce, const MatrixUnit& unit) {
  Node x = reduce.arg(0).arg(0), y = reduce.arg(0).arg(1);
  for (Node factor : {x, y})
    if (!factor.is(Op::Load) || factor.arg_count() > 2 || !base_memory(factor.arg(0)).is(Op::Define))
      return std::nullopt;
  Fragments f;
  for (Node r : closed_ranges(reduce))
    if (range_kind(r) == RangeKind::Unroll && r.arg(0).is_const_int(unit.k) && moves_by(x.arg(1), r, 1) &&
        moves_by(y.arg(1), r, unit.n))
      f.k = r;
  for (Node r : ranges_of(reduce)) {
    if (range_kind(r) != RangeKind::Upcast) continue;
    if (r.arg(0).is_const_int(unit.m) && moves_by(x.arg(1), r, unit.k) && moves_by(y.arg(1), r, 0)) f.m = r;
    if (r.arg(0).is_const_int(unit.n) && moves_by(y.arg(1), r, 1) && moves_by(x.arg(1), r, 0)) f.n = r;
  }
  return f.m && f.n && f.k ? std::optional(f) : std::nullopt;
}

// The sums of a loop that runs over vectors of them, written to memory of the kernel's own when they are
// complete and read from there one by one.
Node each_sum(Node sums, std::uint16_t lanes, Node which, FreshIds& ids) {
  std::int64_t size = lanes;
  Node at = index_const(0);
  Nodes around;
  for (Node r : ranges_of(sums)) {
    if (range_kind(r) != RangeKind::Upcast) {
      around.push_back(r);
      continue;
    }
    at = at * r.arg(0) + r;
    size *= r.arg(0).const_int();
  }
  at = at * index_const(lanes);
  Node memory = define(sums.dtype().element(), ids.define++, size, Space::Register);
  Node effect = store(around.empty() ? memory : after(memory, around), at, sums);
  return load(after(memory, {&effect, 1}), at + which);
}

// The sums of one fragment after its loop.
Node sums_of(Node reduce, const Fragments& f, const MatrixUnit& unit, FreshIds& ids) {
  const DotKind& kind = *find_dot_kind(unit.dot);
  NodeMap<Node> first;
  for (Node r : {f.m, f.n, f.k}) first.try_emplace(r, index_const(0));
  auto fragment = [&](Node factor, int lanes) {
    return load(factor.arg(0), substitute_free(factor.arg(1), first), Node(),
                static_cast<std::uint16_t>(lanes));
  };
  Node x = fragment(reduce.arg(0).arg(0), unit.m * unit.k),
       y = fragment(reduce.arg(0).arg(1), unit.k * unit.n);
  const auto lanes = static_cast<std::uint16_t>(unit.m * unit.n);
  Node nothing = splat(zero_of(DType(kind.sum)), lanes);
  Nodes left;
  for (Node r : closed_ranges(reduce))
    if (r != f.k) left.push_back(r);
  Node sums = reduce_ranges(Op::Add, dot(kind, x, y, nothing, {unit.m, unit.n, unit.k}), left);
  return each_sum(sums, lanes, f.m * index_const(unit.n) + f.n, ids);
}

// The ranges of a fragment that threads share: row = (warp*2 + high)*8 + group, column = (columns*4 + pair)*2
// + low.
struct Shares {
  Node high, low, k, columns;  // in registers of a thread, and the words of a step
  Node warp, group, pair;      // over threads
};

std::optional<Shares> find_shares(Node kernel, const MatrixUnit& unit, const FragmentRanges& at) {
  Shares s;
  bool all = true;
  auto find = [&](int id, std::int64_t extent) {
    for (Node r : all_ranges(kernel))
      if (id >= 0 && range_id(r) == id && r.arg(0).is_const_int(extent)) return r;
    all &= id < 0;
    return Node();
  };
  s.k = find(at.k, unit.k), s.high = find(at.high, 2), s.low = find(at.low, 2);
  s.columns = find(at.columns, unit.n / 8), s.warp = find(at.warp, unit.m / 16);
  s.group = find(at.group, 8), s.pair = find(at.pair, 4);
  return all ? std::optional(s) : std::nullopt;
}

// A factor in a panel: words, or the numbers of words in swizzled rows.
struct PanelFactor {
  Node memory, index;
  PanelRows rows = PanelRows::Steps;
  std::int64_t output = 1;  // how far neighbouring rows of x or columns of y are apart
  bool swizzled = false;
  std::int64_t row = 64;  // numbers of a row of a swizzled panel
};

// How far an index moves with the first step of a range from where all ranges of the fragment are 0; else 0.
std::int64_t first_step(Node index, const Shares& s, Node range) {
  NodeMap<Node> zero, one;
  for (Node r : {s.high, s.low, s.k, s.columns, s.warp, s.group, s.pair}) {
    if (!r) continue;
    zero.try_emplace(r, index_const(0));
    one.try_emplace(r, index_const(r == range ? 1 : 0));
  }
  Linear apart = linear(simplify(substitute_free(index, one), {}));
  apart.add(simplify(substitute_free(index, zero), {}), -1);
  return apart.terms.empty() ? apart.constant : 0;
}

// The factor of a product: `outputs` are the ranges of its outputs by growing weight, `others` those it must
// not depend on. Rows of a swizzled panel are even by how they were made; words may lie in any way.
std::optional<PanelFactor> panel_factor(Node factor, const Shares& s, std::initializer_list<Node> outputs,
                                        std::initializer_list<Node> others) {
  PanelFactor f;
  Node first = factor.is(Op::Pack) ? factor.arg(0) : factor;
  if (!first.is(Op::Load) || first.arg_count() > 2) return std::nullopt;
  Node base = base_memory(first.arg(0));
  if (!base.is(Op::Define) || define_space(base) != Space::Shared) return std::nullopt;
  f.memory = first.arg(0), f.index = first.arg(1);
  f.swizzled = shared_form(base).swizzled;
  if (f.swizzled != factor.is(Op::Pack)) return std::nullopt;
  if (f.swizzled) {
    f.row = panel_row(base.dtype().bytes());
    // Words of one number are in rows of steps, as all are that have not 16 bits.
    if (factor.arg_count() == 2) {
      Linear apart = linear(factor.arg(1).arg(1));
      apart.add(f.index, -1);
      f.rows = apart.constant == 1 ? PanelRows::Steps : PanelRows::Outputs;
    }
  }
  for (Node r : others)
    if (r && depends_on(f.index, r)) return std::nullopt;
  f.output = first_step(f.index, s, *outputs.begin());
  if (f.output == 0) return std::nullopt;
  std::int64_t weight = f.output;
  for (Node r : outputs) {
    if (!r) continue;
    if (f.swizzled ? first_step(f.index, s, r) != weight : !moves_by(f.index, r, weight)) return std::nullopt;
    weight *= r.arg(0).const_int();
  }
  return f;
}

// The index with the ranges of the fragment at their first step.
Node origin_of(const PanelFactor& f, const Shares& s) {
  NodeMap<Node> zero;
  for (Node r : {s.high, s.low, s.k, s.columns, s.warp, s.group, s.pair})
    if (r) zero.try_emplace(r, index_const(0));
  return substitute_free(f.index, zero);
}

// How far the next 64 columns are in a panel whose rows are outputs.
std::int64_t slab_of(const PanelFactor& f, const Shares& s) {
  const std::int64_t next = f.row / 8;
  if (f.rows == PanelRows::Steps || !depends_on(f.index, s.columns) || s.columns.arg(0).const_int() <= next)
    return 0;
  NodeMap<Node> there;
  for (Node r : {s.high, s.low, s.k, s.columns, s.warp, s.group, s.pair})
    if (r) there.try_emplace(r, index_const(r == s.columns ? next : 0));
  Linear apart = linear(simplify(substitute_free(f.index, there), {}));
  apart.add(simplify(origin_of(f, s), {}), -1);
  return apart.terms.empty() ? apart.constant : 0;
}

// Matrices of a factor, each of 8 outputs and 8 steps; `outputs` of them lie along the outputs, the next ones
// 8 steps on. Lane 8*i + j names row j of matrix i.
Node matrices_of(const PanelFactor& f, const Shares& s, std::int64_t outputs) {
  Node row = floor_mod(s.group, index_const(2)) * index_const(4) + s.pair,
       matrix = floor_div(s.group, index_const(2));
  Node half = outputs > 1 ? floor_div(matrix, index_const(outputs)) : floor_mod(matrix, index_const(2));
  Node output = outputs > 1 ? floor_mod(matrix, index_const(outputs)) * index_const(8) : index_const(0),
       step = half * index_const(8);
  (f.rows == PanelRows::Steps ? output : step) = (f.rows == PanelRows::Steps ? output : step) + row;
  const std::int64_t step_apart = f.rows == PanelRows::Steps ? 1 : f.row;
  return matrices(f.memory, origin_of(f, s) + output * index_const(f.output) + step * index_const(step_apart),
                  static_cast<int>(outputs * 2), f.rows == PanelRows::Outputs);
}

// The words of a factor that each thread reads itself: x[group + 8*high][pair + 4*half], or those of y, whose
// columns are the rows.
Node words_of(const PanelFactor& f, const Shares& s, bool is_x) {
  Nodes words;
  for (std::int64_t half = 0; half < 2; ++half)
    for (std::int64_t high = 0; high < (is_x ? 2 : 1); ++high) {
      NodeMap<Node> at;
      at.try_emplace(s.k, s.pair + index_const(half * 4));
      if (is_x) at.try_emplace(s.high, index_const(high));
      for (Node r : {s.pair, s.low})
        if (!is_x) at.try_emplace(r, index_const(0));
      Node index = substitute_free(f.index, at);
      words.push_back(load(f.memory, is_x ? index : index + s.group * index_const(f.output)));
    }
  return vec(words);
}

// Whether a value is made of memory of the thread's own alone.
bool is_made_of_own(Node value) {
  if (value.is(Op::Load)) {
    Node base = base_memory(value.arg(0));
    return base.is(Op::Define) && define_space(base) == Space::Register;
  }
  return std::all_of(value.args().begin(), value.args().end(), is_made_of_own);
}

// A value made of the thread's own memory with ranges replaced in its indices. The memory is that after both
// halves of the rows were written: one word of a vector is of the one, the next of the other.
Node at_place(Node value, const NodeMap<Node>& at, Node high) {
  if (value.is(Op::Load)) {
    Nodes effects;
    for (std::size_t i = 1; i < value.arg(0).arg_count(); ++i) {
      Node effect = value.arg(0).arg(i);
      effects.push_back(depends_on(effect, high) ? end(effect, {&high, 1}) : effect);
    }
    return load(after(base_memory(value.arg(0)), effects), substitute_free(value.arg(1), at));
  }
  Nodes args;
  for (Node a : value.args()) args.push_back(at_place(a, at, high));
  return value.arg_count() == 0 ? value : rebuild(value, args);
}

// The words of x that a thread of a warpgroup has in registers (ir/group_ops.h), where x is made of memory of
// the thread's own: its rows are threads, and it has those words of a row that its share of the sums of
// another product are. Null where x runs along the columns.
Node held_words(Node x, const Shares& s, const MatrixUnit& unit) {
  if (!x.is(Op::Pack) || !is_made_of_own(x)) return Node();
  for (Node r : {s.low, s.columns})
    if (depends_on(x, r)) return Node();
  Nodes words;
  for (int lane = 0; lane < unit.m * unit.k / unit.threads; ++lane) {
    const HeldWord first = held_word(0, lane);
    NodeMap<Node> at;
    at.try_emplace(s.k, s.pair + index_const(first.word));
    at.try_emplace(s.high, index_const(first.row / 8));
    words.push_back(at_place(x, at, s.high));
  }
  return vec(words);
}

// A thread's sums after its loop, written to registers of its own and read from there one by one.
std::optional<Node> shared_sums(Node reduce, const Shares& s, const MatrixUnit& unit, FreshIds& ids) {
  const DotKind& kind = *find_dot_kind(unit.dot);
  std::optional<PanelFactor> x = panel_factor(reduce.arg(0).arg(0), s, {s.group, s.high, s.warp},
                                              {s.low, s.pair, s.columns}),
                             y = panel_factor(reduce.arg(0).arg(1), s, {s.low, s.pair, s.columns},
                                              {s.group, s.high, s.warp});
  Node held = !x && unit.reads == UnitReads::Panels ? held_words(reduce.arg(0).arg(0), s, unit) : Node();
  if ((!x && !held) || !y) return std::nullopt;
  const auto lanes = static_cast<std::uint16_t>(unit.m * unit.n / unit.threads);
  Node nothing = splat(zero_of(DType(kind.sum)), lanes), product;
  if (unit.reads == UnitReads::Panels) {
    if ((x && !x->swizzled) || !y->swizzled) return std::nullopt;
    PanelShape shape{unit.m, unit.n, unit.k, unit.threads, {}, {}};
    if (x) shape.x = {x->rows, slab_of(*x, s)};
    shape.y = {y->rows, slab_of(*y, s)};
    product = panel_dot(kind, shape, x ? x->memory : held, x ? origin_of(*x, s) : index_const(0), y->memory,
                        origin_of(*y, s), nothing);
  } else {
    Node xs = x->swizzled ? matrices_of(*x, s, 2) : words_of(*x, s, true),
         ys = y->swizzled ? matrices_of(*y, s, 1) : words_of(*y, s, false);
    product = dot(kind, xs, ys, nothing, {unit.m, unit.n, unit.k, unit.threads});
  }
  Nodes left;
  for (Node r : closed_ranges(reduce))
    if (r != s.k) left.push_back(r);
  Node which = s.high * index_const(2) + s.low;
  if (s.columns) which = s.columns * index_const(4) + which;
  return each_sum(reduce_ranges(Op::Add, product, left), lanes, which, ids);
}

}  // namespace

OrRefusal<Node> join_shares(Node kernel, const FragmentRanges& at) {
  const MatrixUnit& unit = *at.unit;
  NodeMap<Node> map;
  FreshIds ids = fresh_ids(kernel);
  if (std::optional<Shares> s = find_shares(kernel, unit, at))
    for (Node n : toposort(kernel)) {
      if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add || !n.arg(0).is(Op::Dot)) continue;
      if (n.arg(0).text() != unit.dot) continue;
      if (std::optional<Node> sums = shared_sums(n, *s, unit, ids)) map.try_emplace(n, *sums);
    }
  if (map.empty())
    return Refusal{
        "TC", unit.reads == UnitReads::Panels
                  ? "a unit that reads panels needs both factors staged in swizzled rows"
                  : "a unit of fragments that a warp shares needs both factors as they were loaded, staged"};
  return substitute(kernel, map);
}

OrRefusal<Node> join_fragments(Node kernel, const Target& target, bool wanted) {
  if (!wanted) return kernel;
  FreshIds ids = fresh_ids(kernel);
  NodeMap<Node> map;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add || !n.arg(0).is(Op::Dot)) continue;
    const MatrixUnit* unit = unit_for_dot(target.units, n.arg(0).text(), true);
    std::optional<Fragments> f = unit != nullptr ? find_fragments(n, *unit) : std::nullopt;
    if (f) map.try_emplace(n, sums_of(n, *f, *unit, ids));
  }
  if (map.empty())
    return Refusal{"TC", "a unit of fragments needs both factors staged in the consumer's order"};
  return substitute(kernel, map);
}

}  // namespace lathe
