#include "codegen/choose/lay_out_factors.h"

#include <algorithm>
#include <tuple>

#include "base/small_vector.h"
#include "codegen/codegen.h"
#include "codegen/kernel/panel_layout.h"
#include "codegen/kernel/substitute.h"
#include "codegen/options/matrix_unit.h"
#include "codegen/options/paired_unit.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/group_ops.h"
#include "ir/ranges.h"
#include "ir/shared_memory.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "rules/simplify.h"
#include "target/matrix_units.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

struct Factor {
  Node widened;  // as it is in the product
  Node value;    // the load it is made of
  std::vector<PanelAxis> axes;
  // Numbers that one access takes, at multiples of which rows begin, and those of a row of a panel.
  std::int64_t piece() const { return kSwizzlePiece / value.dtype().bytes(); }
  std::int64_t row() const { return panel_row(value.dtype().bytes()); }
};

// The axis that a range moves alone, or none.
const PanelAxis* own_axis(const Factor& factor, Node range) {
  for (const PanelAxis& axis : factor.axes)
    if (axis.ranges.size() == 1 && axis.ranges[0] == range) return &axis;
  return nullptr;
}

// Whether rows of neighbours along the range can be read as they lie.
bool lies_along(const Factor& factor, Node range) {
  const PanelAxis* axis = own_axis(factor, range);
  if (axis == nullptr || axis->stride != 1) return false;
  if (factor.value.arg_count() > 2 && depends_on(factor.value.arg(2), range)) return false;
  const Linear index = linear(factor.value.arg(1));
  return index.constant % factor.piece() == 0 &&
         std::all_of(index.terms.begin(), index.terms.end(), [&](const Term& t) {
           return t.node == range || t.coefficient * known_divisor(t.node) % factor.piece() == 0;
         });
}

bool is_step(Node range) { return range && range_kind(range) == RangeKind::Reduce; }

// Only numbers of 16 bits may be neighbours along outputs.
bool takes_outputs(const Factor& factor) { return factor.value.dtype().bits() == 16; }

// The range along which rows are neighbours already, or none.
Node as_it_lies(const Factor& factor) {
  for (Node r : ranges_of(factor.value))
    if (r.arg(0).const_int() >= factor.row() && (is_step(r) || takes_outputs(factor)) &&
        lies_along(factor, r))
      return r;
  return Node();
}

bool fills_rows(Node range, std::int64_t row) {
  return range.arg(0).is_const() && range.arg(0).const_int() % row == 0;
}

std::optional<Factor> factor_of(Node widened, Node value) {
  if (!value.is(Op::Load) || !value.arg(0).is(Op::Param) || value.dtype().lanes != 1) return std::nullopt;
  Factor factor{widened, value, {}};
  Nodes ranges;
  for (Node r : ranges_of(value)) {
    const bool plain = range_kind(r) == RangeKind::Global || range_kind(r) == RangeKind::Reduce;
    if (!plain || !r.arg(0).is_const()) return std::nullopt;
    ranges.push_back(r);
  }
  factor.axes = panel_axes(value, ranges, PanelOrder::Source);
  for (const PanelAxis& axis : factor.axes)
    if (axis.stride == 0) return std::nullopt;
  for (const Term& t : linear(value.arg(1)).terms)
    if (!t.node.is(Op::Range)) return std::nullopt;
  return factor;
}

// A step that both factors can have as neighbours: one that lies so in most of them, then one that fills
// rows, then the longest.
Node common_step(const Factor& x, const Factor& y, Node reduce) {
  Node best;
  auto rank = [&](Node r) {
    return std::tuple(int{lies_along(x, r)} + int{lies_along(y, r)}, fills_rows(r, x.row()),
                      r.arg(0).const_int());
  };
  for (Node r : closed_ranges(reduce))
    if (own_axis(x, r) != nullptr && own_axis(y, r) != nullptr && r.arg(0).const_int() >= x.row())
      if (!best || rank(r) > rank(best)) best = r;
  return best;
}

// The extent of a range in whole rows.
std::int64_t whole_rows(Node range, std::int64_t row) {
  return (range.arg(0).const_int() + row - 1) / row * row;
}

// Whether the steps of the product are those of nothing else.
bool is_own_step(Node kernel, Node reduce, Node step) {
  for (Node n : toposort(kernel)) {
    const std::span<const Node> closed = closed_ranges(n);
    if (n != reduce && std::find(closed.begin(), closed.end(), step) != closed.end()) return false;
  }
  return true;
}

// An output that a factor can have as neighbours.
Node own_output(const Factor& factor) {
  Node best;
  if (!takes_outputs(factor)) return best;
  auto rank = [&](Node r) { return std::pair(lies_along(factor, r), r.arg(0).const_int()); };
  for (Node r : ranges_of(factor.value))
    if (range_kind(r) == RangeKind::Global && own_axis(factor, r) != nullptr && fills_rows(r, factor.row()))
      if (!best || rank(r) > rank(best)) best = r;
  return best;
}

// Another value in the factor's place.
Node widened(const Factor& factor, Node value) {
  return before_tf32(factor.widened) ? as_tf32(value) : cast(value, factor.widened.dtype());
}

double elements_of(const Factor& factor) {
  double n = 1;
  for (const PanelAxis& axis : factor.axes) n *= static_cast<double>(axis.extent);
  return n;
}

// The factor over all places that its ranges reach, borders and all, the axis of `last` innermost; and where
// a place of the product's lies there.
struct Copied {
  FactorCopy copy;
  Node index;
};
Copied copied(const Factor& factor, Node last, const RuleChanges& rules) {
  std::vector<const PanelAxis*> axes;
  for (const PanelAxis& axis : factor.axes)
    if (&axis != own_axis(factor, last)) axes.push_back(&axis);
  axes.push_back(own_axis(factor, last));
  NodeMap<Node> map;
  Nodes loops;
  Node to = index_const(0), from = index_const(0);
  std::int64_t size = 1;
  Node inside;
  for (const PanelAxis* axis : axes) {
    // Rows of whole pieces; only steps are filled up.
    const std::int64_t extent =
        axis == axes.back() && is_step(last) ? whole_rows(last, factor.row()) : axis->extent;
    Node r = range(index_const(extent), static_cast<std::int64_t>(loops.size()), RangeKind::Global);
    if (extent > axis->extent) inside = less(r, index_const(axis->extent));
    loops.push_back(r);
    Node here = index_const(-axis->low);
    for (std::size_t i = 0; i < axis->ranges.size(); ++i) {
      map.try_emplace(axis->ranges[i], i == axis->unit ? r + index_const(axis->low) : index_const(0));
      here = here + axis->ranges[i] * index_const(axis->weights[i]);
    }
    to = to * index_const(extent) + r;
    from = from * index_const(extent) + here;
    size *= extent;
  }
  Node source = factor.value.arg(0), at = substitute_free(factor.value, map);
  Node moved =
      load(param(source.dtype(), 1, memory_size(source)), at.arg(1), at.arg_count() > 2 ? at.arg(2) : Node());
  if (inside) moved = under_gate(moved, inside, [](Node) { return true; });
  Node effect = end(store(param(source.dtype(), 0, size), to, moved), loops);
  return {{simplify(sink({&effect, 1}), rules), static_cast<int>(param_slot(source)), source.dtype(), size},
          from};
}

bool reads_panels(const Target& target, DType dtype) {
  return std::any_of(target.units.begin(), target.units.end(), [&](const std::string& name) {
    const MatrixUnit* unit = find_matrix_unit(name);
    return unit != nullptr && unit->reads == UnitReads::Panels && DType(find_dot_kind(unit->dot)->x) == dtype;
  });
}

bool takes_panels(Node kernel, const Compile& compile) {
  constexpr auto kSwizzled = static_cast<std::int64_t>(PanelOrder::Swizzled);
  const std::vector<Opt> opts = choose_options(kernel, compile);
  return std::any_of(opts.begin(), opts.end(), [](const Opt& opt) {
    return opt.op == OptOp::STAGE && opt.arg.size() > 1 && opt.arg[1] == kSwizzled;
  });
}

}  // namespace

std::optional<LaidOut> lay_out_factors(Node kernel, const Compile& compile, Worth worth) {
  if (!compile.target.groups || compile.invariant || compile.rules.disables("laid-out-factors"))
    return std::nullopt;
  if (has_paired_products(kernel)) return std::nullopt;  // both are what they are as they lie
  const std::optional<SmallProduct> product = small_product(kernel, compile.target);
  if (!product || !reads_panels(compile.target, product->x.dtype())) return std::nullopt;
  const Node element = product->reduce.arg(0);
  std::optional<Factor> factors[2] = {factor_of(element.arg(0), product->x),
                                      factor_of(element.arg(1), product->y)};
  if (!factors[0] || !factors[1] || element.arg(0) == element.arg(1)) return std::nullopt;
  const Node lies[2] = {as_it_lies(*factors[0]), as_it_lies(*factors[1])};
  if (lies[0] && lies[1] && !(is_step(lies[0]) && is_step(lies[1]) && lies[0] != lies[1]))
    return std::nullopt;
  Node step = common_step(*factors[0], *factors[1], product->reduce);
  // Outputs instead where they are longer rows: those of a weight's gradient are its channels.
  const Node outputs[2] = {own_output(*factors[0]), own_output(*factors[1])};
  if (step && outputs[0] && outputs[1] && 2 * step.arg(0).const_int() <= outputs[0].arg(0).const_int() &&
      2 * step.arg(0).const_int() <= outputs[1].arg(0).const_int())
    step = Node();
  const std::int64_t row = factors[0]->row();
  if (step && !fills_rows(step, row) && !is_own_step(kernel, product->reduce, step)) return std::nullopt;
  // Without one, words are neighbouring steps whose places are evenly apart.
  const Node last = closed_ranges(product->reduce).back();
  if (!step && (!last.arg(0).is_const() || last.arg(0).const_int() % 2 != 0)) return std::nullopt;
  double products = 1, moved = 0;
  for (Node r : ranges_of(element)) products *= static_cast<double>(r.arg(0).hi());
  LaidOut made;
  for (Node n : toposort(kernel))
    if (n.is(Op::Param)) made.params = std::max(made.params, static_cast<int>(param_slot(n)) + 1);
  NodeMap<Node> to, longer;
  if (step && !fills_rows(step, row))
    longer.try_emplace(step, range(index_const(whole_rows(step, row)), range_id(step), range_kind(step)));
  for (std::size_t i = 0; i < 2; ++i) {
    const std::optional<Factor>& factor = factors[i];
    if (lies[i] && (lies[i] == step ? fills_rows(step, row) : !is_step(lies[i]))) {
      // What is no step of the kernel as it was gives 0.
      if (!longer.empty())
        to.try_emplace(factor->widened, widened(*factor, under_gate(substitute_free(factor->value, longer),
                                                                    less(*longer.find(step), step.arg(0)),
                                                                    [](Node) { return true; })));
      continue;
    }
    const Node along = step ? step : outputs[i];
    if (!along) return std::nullopt;
    Copied copy = copied(*factor, along, compile.rules);
    moved += 2 * elements_of(*factor) * factor->value.dtype().bytes();
    Node now =
        load(param(copy.copy.dtype, made.params + static_cast<int>(made.copies.size()), copy.copy.size),
             simplify(copy.index, compile.rules));
    to.try_emplace(factor->widened, widened(*factor, now));
    made.copies.push_back(std::move(copy.copy));
  }
  if (made.copies.empty()) return std::nullopt;
  // The target's rates count products of 16-bit numbers; a unit multiplies as many bytes of others.
  const GroupRates& rates = compile.target.group_rates;
  const double words = products * factors[0]->value.dtype().bytes() / 2.0;
  const double before = words / rates.other_products,
               laid_out = words / rates.panel_products + moved / rates.moved_bytes +
                          rates.launch_seconds * static_cast<double>(made.copies.size());
  if (worth == Worth::Estimated && laid_out > before) return std::nullopt;
  made.kernel = substitute(kernel, to);
  if (!longer.empty()) made.kernel = substitute(made.kernel, longer);
  return takes_panels(made.kernel, compile) ? std::optional(std::move(made)) : std::nullopt;
}

}  // namespace lathe
