#include "codegen/options/shared_panel.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/group_ops.h"
#include "ir/ranges.h"
#include "ir/shared_memory.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

// A thread has so many elements in flight at most: they are in registers between their load and their store.
constexpr std::int64_t kInFlight = 32;

bool is_multiple(const Linear& sum, std::int64_t n, const SmallVector<Node, 4>& except) {
  for (const Term& t : sum.terms) {
    if (std::find(except.begin(), except.end(), t.node) != except.end()) continue;
    if (t.coefficient * known_divisor(t.node) % n != 0) return false;
  }
  return true;
}

// How many neighbours along the axis one load takes: the panel has whole pieces of them, and they lie
// aligned.
std::int64_t piece_width(Node source, const PanelAxis& axis, std::int64_t words, const Target& target) {
  Linear index = linear(source.arg(1));
  for (std::int64_t n = target.max_load_bytes / std::max(source.dtype().bytes(), 1); n > words; n /= 2)
    if (axis.extent * words % n == 0 && (index.constant + axis.low * words) % n == 0 &&
        is_multiple(index, n, axis.ranges))
      return n / words;
  return 1;
}

// Elements more between rows of a panel, of so many each. Words that a warp's threads read for a product
// (ir/dot.h) are 4 steps for each of 8 rows or columns: the next row of the panel begins as many banks
// further on as neighbours are read. Others are a piece apart where they are not written as they are read, or
// one element where nothing is written or read by pieces: threads that read a column, some rows each, then
// meet few banks twice.
std::int64_t between_rows(Node value, const PanelAxis& axis, std::int64_t row, bool turned, bool one_by_one,
                          const Target& target) {
  constexpr std::int64_t kBanks = 32, kSteps = 4, kOutputs = 8;
  if (value.is(Op::Pack)) {
    const bool steps = std::any_of(axis.ranges.begin(), axis.ranges.end(), [](Node r) {
      return range_kind(r) == RangeKind::Reduce || range_kind(r) == RangeKind::Unroll;
    });
    return ((steps ? kSteps : kOutputs) + kBanks - row % kBanks) % kBanks;
  }
  if (turned && one_by_one) return 1;
  return turned ? std::max<std::int64_t>(target.max_load_bytes / std::max(value.dtype().bytes(), 1), 1) : 0;
}

// Comparisons that have one answer for all neighbours of a piece are made for its first: a piece that is one
// load then has one gate. n*q + lane < 0 is q < 0 for every lane below n.
Node with_one_gate(Node value, Node lane, std::int64_t n) {
  NodeMap<Node> first, same;
  first.try_emplace(lane, index_const(0));
  SmallVector<Node, 4> except{lane};
  for (Node less_node : toposort(value)) {
    if (!less_node.is(Op::Less) || !less_node.arg(0).dtype().is_index() || !depends_on(less_node, lane))
      continue;
    Linear apart = linear(less_node.arg(0));
    apart.add(less_node.arg(1), -1);
    const bool grows = std::any_of(apart.terms.begin(), apart.terms.end(),
                                   [&](const Term& t) { return t.node == lane && t.coefficient == 1; });
    if (grows && apart.constant % n == 0 && is_multiple(apart, n, except))
      same.try_emplace(less_node, substitute_free(less_node, first));
  }
  return same.empty() ? value : substitute(value, same);
}

Node row_major(std::span<const Node> ranges, std::int64_t& size) {
  Node index = index_const(0);
  for (Node r : ranges) {
    const std::int64_t extent = std::max<std::int64_t>(r.arg(0).hi(), 1);
    index = index * index_const(extent) + r;
    size *= extent;
  }
  return index;
}

// A swizzled panel: rows of 128 bytes, which are the steps of an output or the outputs of a step, whichever
// are neighbours in the source.
struct MatrixForm {
  SmallVector<Node, 4> loads;  // of a word's numbers
  std::int64_t apart = 1;      // how far the next one is in the source
  std::int64_t row = 64;       // numbers of a row
  std::size_t along, across;   // which axes are columns and rows
  bool steps = false;          // a row has the steps of one output
  std::int64_t rows = 1, columns = 1;
  std::int64_t parts() const { return static_cast<std::int64_t>(loads.size()); }
};

bool is_reduce_axis(const PanelAxis& axis) {
  return std::all_of(axis.ranges.begin(), axis.ranges.end(), [](Node r) {
    return range_kind(r) == RangeKind::Reduce || range_kind(r) == RangeKind::Unroll;
  });
}

OrRefusal<MatrixForm> matrix_form(Node value, const std::vector<PanelAxis>& axes) {
  auto refused = [](const char* reason) { return Refusal{"STAGE", reason}; };
  MatrixForm form;
  bool same_gate = true;
  if (value.is(Op::Pack) && value.dtype().lanes == 1)
    for (Node load : value.args())
      if (load.is(Op::Load)) form.loads.push_back(load);
  if (form.loads.empty() || form.loads.size() != value.arg_count() || form.loads[0].dtype().lanes != 1)
    return refused("a swizzled panel holds words of numbers that were loaded");
  Node first = form.loads[0];
  form.row = panel_row(first.dtype().bytes());
  for (std::size_t i = 1; i < form.loads.size(); ++i) {
    Node load = form.loads[i];
    Linear apart = linear(load.arg(1));
    apart.add(first.arg(1), -1);
    same_gate &=
        load.arg_count() == first.arg_count() && (load.arg_count() < 3 || load.arg(2) == first.arg(2));
    if (i == 1) form.apart = apart.constant;
    if (load.arg(0) != first.arg(0) || !apart.terms.empty() ||
        apart.constant != static_cast<std::int64_t>(i) * form.apart)
      return refused("the numbers of a word lie unevenly in memory");
  }
  if (axes.size() != 2) return refused("a swizzled panel has rows and columns, and no other axes");
  form.along = axes[0].stride == 1 ? 0 : 1;
  form.across = 1 - form.along;
  form.steps = is_reduce_axis(axes[form.along]);
  if (axes[form.along].stride != 1 || (form.steps && packed_neighbours(value) != form.parts()) ||
      (!form.steps && form.apart == 1 && form.parts() > 1) || form.steps == is_reduce_axis(axes[form.across]))
    return refused("neither steps nor outputs are neighbours in memory");
  if (!form.steps && first.dtype().bits() != 16)
    return refused("only numbers of 16 bits lie in rows of outputs");
  if (form.steps && !same_gate) return refused("the numbers of a row are there or not one by one");
  form.columns = axes[form.along].extent * (form.steps ? form.parts() : 1);
  form.rows = axes[form.across].extent * (form.steps ? 1 : form.parts());
  if (form.columns % form.row != 0 || form.rows % kSwizzleRows != 0)
    return refused("the rows of a swizzled panel are whole, and come by eights");
  return form;
}

// The gate of a word's first number, or of its second one where `part` is 1, with the value's ranges
// replaced. Those stand for threads in `part`, which is of the copy already.
Node gate_of_part(const MatrixForm& form, Node part, const NodeMap<Node>& map) {
  Node gates[2];
  // Words of more than two numbers, or of one, lie in rows of steps, which have one gate.
  for (std::size_t i = 0; i < 2; ++i)
    if (Node load = form.loads[form.parts() == 2 ? i : 0]; load.arg_count() > 2)
      gates[i] = substitute_free(load.arg(2), map);
  if (gates[0] == gates[1]) return gates[0];
  Node is_first = less(part, index_const(1)), is_second = logical_not(is_first);
  return apply(Op::Or, gates[0] ? logical_and(is_first, gates[0]) : is_first,
               gates[1] ? logical_and(is_second, gates[1]) : is_second);
}

// The coordinate along an axis, in numbers of which each step of it is so many.
Node axis_read(const PanelAxis& axis, std::int64_t numbers) {
  Node sum = index_const(0);
  for (std::size_t r = 0; r < axis.ranges.size(); ++r)
    sum = sum + axis.ranges[r] * index_const(axis.weights[r] * numbers);
  return sum;
}

// Where a reader finds the first number of a word: slab, row, column. Ranges that step over whole slabs are
// kept apart from those within.
Node matrix_read(const MatrixForm& form, const std::vector<PanelAxis>& axes) {
  PanelAxis slabs, within;
  const PanelAxis& along = axes[form.along];
  const std::int64_t numbers = form.steps ? form.parts() : 1;
  std::int64_t reach = 0;
  for (std::size_t r = 0; r < along.ranges.size(); ++r) {
    const bool whole = along.weights[r] * numbers % form.row == 0;
    PanelAxis& to = whole ? slabs : within;
    to.ranges.push_back(along.ranges[r]);
    to.weights.push_back(whole ? along.weights[r] * numbers / form.row : along.weights[r]);
    if (!whole) reach += along.weights[r] * numbers * (along.ranges[r].arg(0).const_int() - 1);
  }
  Node slab = axis_read(slabs, 1), column = axis_read(within, numbers);
  if (reach >= form.row) {
    slab = slab + floor_div(column, index_const(form.row));
    column = floor_mod(column, index_const(form.row));
  }
  return slab * index_const(form.rows * form.row) +
         axis_read(axes[form.across], form.steps ? 1 : form.parts()) * index_const(form.row) + column;
}

}  // namespace

OrRefusal<PanelCopy> shared_copy(Node value, const Nodes& below, const Nodes& group, PanelOrder order,
                                 std::span<const RangePlace> places, const Target& target, FreshIds& ids) {
  PanelCopy made;
  const bool swizzled = order == PanelOrder::Swizzled;
  const std::vector<PanelAxis> axes =
      swizzled ? matrix_axes(value, below, places) : shared_axes(value, below, order);
  const std::size_t none = axes.size();
  MatrixForm form;
  if (swizzled) {
    OrRefusal<MatrixForm> found = matrix_form(value, axes);
    if (!found) return found.refusal();
    form = *found;
  }
  const std::int64_t words = packed_neighbours(value);  // neighbours of the source that make one element
  Node source = source_load(value);
  std::size_t along = none;
  for (std::size_t i = 0; i < none; ++i)
    if (source && axes[i].stride == 1) along = i;
  if (swizzled) along = form.along;
  const std::int64_t width = along < none ? piece_width(source, axes[along], words, target) : 1;

  // The pieces of this thread.
  std::int64_t threads = 1, pieces = 1;
  Node thread = row_major(group, threads);
  std::vector<std::int64_t> counts;  // of pieces along each axis
  for (std::size_t i = 0; i < none; ++i) {
    const bool rows = swizzled && i == form.across;
    counts.push_back(i == along ? axes[i].extent / width : rows ? form.rows : axes[i].extent);
    pieces *= counts.back();
  }
  const std::int64_t turns = (pieces + threads - 1) / threads,
                     together = std::clamp<std::int64_t>(kInFlight / width, 1, turns),
                     rounds = (turns + together - 1) / together;
  Node piece = thread;
  auto count = [&](std::int64_t n, RangeKind kind, std::int64_t step) {
    if (n == 1) return;
    Node r = range(index_const(n), ids.range++, kind);
    made.loops.push_back(r);
    piece = r * index_const(step) + piece;
  };
  count(rounds, RangeKind::Loop, together * threads);
  count(together, RangeKind::Upcast, threads);
  if (rounds * together * threads > pieces) made.gate = less(piece, index_const(pieces));
  Node lane;
  if (width > 1) {
    lane = range(index_const(width), ids.range++, RangeKind::Upcast);
    made.loops.push_back(lane);
  }

  // Its coordinates: pieces along the source first, then along the panel.
  std::vector<std::size_t> digits(none);
  std::iota(digits.begin(), digits.end(), 0);
  if (along < none)
    std::rotate(digits.begin() + static_cast<std::ptrdiff_t>(along),
                digits.begin() + static_cast<std::ptrdiff_t>(along) + 1, digits.end());
  std::vector<Node> coordinates(none), numbers(none);  // the pieces' numbers
  for (std::size_t d = none; d-- > 0;) {
    const std::size_t i = digits[d];
    Node digit = d == 0 ? piece : floor_mod(piece, index_const(counts[i]));
    if (d > 0) piece = floor_div(piece, index_const(counts[i]));
    numbers[i] = digit;
    coordinates[i] = i == along && lane ? digit * index_const(width) + lane : digit;
  }
  Node part = index_const(0);  // which number of a word
  if (swizzled && form.steps && form.parts() > 1) {
    part = range(index_const(form.parts()), ids.range++, RangeKind::Upcast);
    made.loops.push_back(part);
  } else if (swizzled && !form.steps) {
    part = floor_mod(numbers[form.across], index_const(2));
    coordinates[form.across] = floor_div(numbers[form.across], index_const(2));
  }
  NodeMap<Node> map;
  Node inside = made.gate;
  for (std::size_t i = 0; i < none; ++i) {
    Node rest = coordinates[i];
    for (std::size_t r = 0; axes[i].digits && r < axes[i].ranges.size(); ++r) {
      Node steps = axes[i].ranges[r].arg(0);
      const bool top = r + 1 == axes[i].ranges.size();
      map.try_emplace(axes[i].ranges[r], top ? rest : floor_mod(rest, steps));
      if (!top) rest = floor_div(rest, steps);
    }
    for (std::size_t r = 0; !axes[i].digits && r < axes[i].ranges.size(); ++r) {
      Node at = r == axes[i].unit ? coordinates[i] + index_const(axes[i].low) : index_const(0);
      map.try_emplace(axes[i].ranges[r], at);
      if (r == axes[i].unit && !axes[i].ranges[r].arg(0).is_const())
        inside = both(inside, less(at, axes[i].ranges[r].arg(0)));
    }
  }
  if (swizzled) {
    made.value = load(form.loads[0].arg(0),
                      substitute_free(form.loads[0].arg(1), map) + part * index_const(form.apart),
                      gate_of_part(form, part, map));
  } else {
    made.value = substitute_free(value, map);
  }
  if (lane) made.value = with_one_gate(made.value, lane, width);
  if (inside) made.value = under_gate(made.value, inside, [](Node) { return true; });

  if (swizzled) {
    const std::int64_t numbers_each = form.steps ? form.parts() : 1, piece_numbers = width * numbers_each,
                       in_row = form.row / piece_numbers;
    Node number = numbers[form.along], slab = index_const(0);
    if (form.columns > form.row) {
      slab = floor_div(number, index_const(in_row));
      number = floor_mod(number, index_const(in_row));
    }
    Node column = number * index_const(piece_numbers);
    if (lane) column = column + lane * index_const(numbers_each);
    if (form.steps) column = column + part;
    made.index =
        slab * index_const(form.rows * form.row) + numbers[form.across] * index_const(form.row) + column;
    made.read = matrix_read(form, axes);
    made.size = form.rows * form.columns;
    made.parts = form.parts();
    made.part = form.steps ? 1 : form.row;
    return made;
  }
  made.index = made.read = index_const(0);
  for (std::size_t i = none; i-- > 0;) {
    Node here = index_const(-axes[i].low);
    for (std::size_t r = 0; r < axes[i].ranges.size(); ++r)
      here = here + axes[i].ranges[r] * index_const(axes[i].weights[r]);
    made.index = coordinates[i] * index_const(made.size) + made.index;
    made.read = here * index_const(made.size) + made.read;
    made.size *= axes[i].extent;
    if (i + 1 == none && none > 1)
      made.size += between_rows(value, axes[i], made.size, along != i || order == PanelOrder::Source,
                                order == PanelOrder::Source && width == 1, target);
  }
  return made;
}

}  // namespace lathe
