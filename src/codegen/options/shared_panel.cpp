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
  constexpr std::int64_t kSteps = 4, kOutputs = 8;
  const std::int64_t banks = target.shared_banks;
  if (value.is(Op::Pack)) {
    const bool steps = std::any_of(axis.ranges.begin(), axis.ranges.end(), [](Node r) {
      return range_kind(r) == RangeKind::Reduce || range_kind(r) == RangeKind::Unroll;
    });
    return ((steps ? kSteps : kOutputs) + banks - row % banks) % banks;
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

// What the panel holds, where no number is gated and rows are evenly apart.
std::optional<PanelContent> content_of(Node value, const MatrixForm& form,
                                       const std::vector<PanelAxis>& axes) {
  for (Node load : form.loads)
    if (load.arg_count() > 2) return std::nullopt;
  const PanelAxis& across = axes[form.across];
  // An axis counts words, or elements of the source where a word is several neighbours.
  const std::int64_t apart = form.steps ? across.stride * packed_neighbours(value) : form.apart;
  if (across.stride == 0 || (!form.steps && across.stride != form.apart * form.parts())) return std::nullopt;
  NodeMap<Node> zero;
  for (const PanelAxis& axis : axes)
    for (Node r : axis.ranges) zero.try_emplace(r, index_const(0));
  Node first = form.loads[0];
  return PanelContent{first.arg(0), substitute_free(first.arg(1), zero), apart, form.rows, form.columns};
}

// The gate of a word's first number, or of its second one where `part` is 1, with the value's ranges
// replaced. Those stand for threads in `part`, which is of the copy already.
Node gate_of_part(const MatrixForm& form, Node part, const NodeMap<Node>& map) {
  Node gates[2];
  // Words of more than two numbers, or of one, are in rows of steps, which have one gate.
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

// How the threads of a group copy a value into a panel: in pieces of neighbours, shared out evenly.
class SharedCopy {
 public:
  SharedCopy(Node value, PanelOrder order, std::vector<PanelAxis> axes, const Target& target, FreshIds& ids)
      : value_(value),
        order_(order),
        swizzled_(order == PanelOrder::Swizzled),
        axes_(std::move(axes)),
        along_(axes_.size()),
        target_(target),
        ids_(ids) {}

  OrRefusal<PanelCopy> run(const Nodes& group) {
    if (swizzled_) {
      OrRefusal<MatrixForm> found = matrix_form(value_, axes_);
      if (!found) return found.refusal();
      form_ = *found;
    }
    find_pieces();
    Node piece = share_pieces(group);
    find_coordinates(piece);
    copy_value();
    swizzled_ ? place_in_matrix() : place_in_rows();
    return std::move(made_);
  }

 private:
  // Along which axis of the panel neighbours of the source are, and how many of them are a piece.
  void find_pieces() {
    const std::int64_t words = packed_neighbours(value_);  // neighbours of the source that make one element
    Node source = source_load(value_);
    for (std::size_t i = 0; i < axes_.size(); ++i)
      if (source && axes_[i].stride == 1) along_ = i;
    if (swizzled_) along_ = form_.along;
    if (along_ < axes_.size()) width_ = piece_width(source, axes_[along_], words, target_);
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const bool rows = swizzled_ && i == form_.across;
      counts_.push_back(i == along_ ? axes_[i].extent / width_ : rows ? form_.rows : axes_[i].extent);
    }
  }

  // The number of a thread's piece in each of its turns, and the loops over those.
  Node share_pieces(const Nodes& group) {
    std::int64_t threads = 1, pieces = 1;
    Node piece = row_major(group, threads);
    for (std::int64_t count : counts_) pieces *= count;
    const std::int64_t turns = (pieces + threads - 1) / threads,
                       together = std::clamp<std::int64_t>(kInFlight / width_, 1, turns),
                       rounds = (turns + together - 1) / together;
    auto count = [&](std::int64_t n, RangeKind kind, std::int64_t step) {
      if (n > 1) piece = add_loop(n, kind) * index_const(step) + piece;
    };
    count(rounds, RangeKind::Loop, together * threads);
    count(together, RangeKind::Upcast, threads);
    if (rounds * together * threads > pieces) made_.gate = less(piece, index_const(pieces));
    if (width_ > 1) lane_ = add_loop(width_, RangeKind::Upcast);
    return piece;
  }
  Node add_loop(std::int64_t n, RangeKind kind) {
    made_.loops.push_back(range(index_const(n), ids_.range++, kind));
    return made_.loops.back();
  }

  // The coordinates of a piece: along the source first, then along the panel.
  void find_coordinates(Node piece) {
    std::vector<std::size_t> digits(axes_.size());
    std::iota(digits.begin(), digits.end(), 0);
    if (along_ < axes_.size())
      std::rotate(digits.begin() + static_cast<std::ptrdiff_t>(along_),
                  digits.begin() + static_cast<std::ptrdiff_t>(along_) + 1, digits.end());
    coordinates_.resize(axes_.size());
    numbers_.resize(axes_.size());
    for (std::size_t d = axes_.size(); d-- > 0;) {
      const std::size_t i = digits[d];
      Node digit = d == 0 ? piece : floor_mod(piece, index_const(counts_[i]));
      if (d > 0) piece = floor_div(piece, index_const(counts_[i]));
      numbers_[i] = digit;
      coordinates_[i] = i == along_ && lane_ ? digit * index_const(width_) + lane_ : digit;
    }
    if (swizzled_ && form_.steps && form_.parts() > 1) {
      part_ = add_loop(form_.parts(), RangeKind::Upcast);
    } else if (swizzled_ && !form_.steps) {
      part_ = floor_mod(numbers_[form_.across], index_const(2));
      coordinates_[form_.across] = floor_div(numbers_[form_.across], index_const(2));
    }
  }

  // The value where a thread's piece is.
  void copy_value() {
    NodeMap<Node> map;
    Node inside = made_.gate;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const PanelAxis& axis = axes_[i];
      Node rest = coordinates_[i];
      for (std::size_t r = 0; axis.digits && r < axis.ranges.size(); ++r) {
        Node steps = axis.ranges[r].arg(0);
        const bool top = r + 1 == axis.ranges.size();
        map.try_emplace(axis.ranges[r], top ? rest : floor_mod(rest, steps));
        if (!top) rest = floor_div(rest, steps);
      }
      for (std::size_t r = 0; !axis.digits && r < axis.ranges.size(); ++r) {
        Node at = r == axis.unit ? coordinates_[i] + index_const(axis.low) : index_const(0);
        map.try_emplace(axis.ranges[r], at);
        if (r == axis.unit && !axis.ranges[r].arg(0).is_const())
          inside = both(inside, less(at, axis.ranges[r].arg(0)));
      }
    }
    if (swizzled_) {
      Node first = form_.loads[0],
           index = substitute_free(first.arg(1), map) + part_ * index_const(form_.apart);
      made_.value = load(first.arg(0), index, gate_of_part(form_, part_, map));
    } else {
      made_.value = substitute_free(value_, map);
    }
    if (lane_) made_.value = with_one_gate(made_.value, lane_, width_);
    if (inside) made_.value = under_gate(made_.value, inside, [](Node) { return true; });
  }

  // Slabs of rows that are swizzled.
  void place_in_matrix() {
    const std::int64_t numbers_each = form_.steps ? form_.parts() : 1, piece_numbers = width_ * numbers_each,
                       in_row = form_.row / piece_numbers;
    Node number = numbers_[form_.along], slab = index_const(0);
    if (form_.columns > form_.row) {
      slab = floor_div(number, index_const(in_row));
      number = floor_mod(number, index_const(in_row));
    }
    Node column = number * index_const(piece_numbers);
    if (lane_) column = column + lane_ * index_const(numbers_each);
    if (form_.steps) column = column + part_;
    made_.index =
        slab * index_const(form_.rows * form_.row) + numbers_[form_.across] * index_const(form_.row) + column;
    made_.read = matrix_read(form_, axes_);
    made_.content = content_of(value_, form_, axes_);
    made_.size = form_.rows * form_.columns;
    made_.parts = form_.parts();
    made_.part = form_.steps ? 1 : form_.row;
  }

  // Axis by axis, the last one contiguous.
  void place_in_rows() {
    const bool as_source = order_ == PanelOrder::Source;
    made_.index = made_.read = index_const(0);
    for (std::size_t i = axes_.size(); i-- > 0;) {
      Node here = index_const(-axes_[i].low);
      for (std::size_t r = 0; r < axes_[i].ranges.size(); ++r)
        here = here + axes_[i].ranges[r] * index_const(axes_[i].weights[r]);
      made_.index = coordinates_[i] * index_const(made_.size) + made_.index;
      made_.read = here * index_const(made_.size) + made_.read;
      made_.size *= axes_[i].extent;
      if (i + 1 == axes_.size() && axes_.size() > 1)
        made_.size += between_rows(value_, axes_[i], made_.size, along_ != i || as_source,
                                   as_source && width_ == 1, target_);
    }
  }

  const Node value_;
  const PanelOrder order_;
  const bool swizzled_;
  const std::vector<PanelAxis> axes_;
  std::size_t along_;  // the axis whose neighbours are a piece, or none of them
  const Target& target_;
  FreshIds& ids_;
  MatrixForm form_;                          // of a swizzled panel
  std::int64_t width_ = 1;                   // of a piece
  std::vector<std::int64_t> counts_;         // of pieces along each axis
  std::vector<Node> coordinates_, numbers_;  // of elements, and of pieces
  Node lane_, part_ = index_const(0);        // in a piece; which number of a word
  PanelCopy made_;
};

}  // namespace

bool hold_the_same(const PanelContent& a, const PanelContent& b) {
  if (a.source != b.source || a.apart != b.apart || a.rows != b.rows || a.columns != b.columns) return false;
  Linear apart = linear(a.first);
  apart.add(b.first, -1);
  return apart.terms.empty() && apart.constant == 0;
}

OrRefusal<PanelCopy> shared_copy(Node value, const Nodes& below, const Nodes& group, PanelOrder order,
                                 std::span<const RangePlace> places, const Target& target, FreshIds& ids) {
  std::vector<PanelAxis> axes =
      order == PanelOrder::Swizzled ? matrix_axes(value, below, places) : shared_axes(value, below, order);
  return SharedCopy(value, order, std::move(axes), target, ids).run(group);
}

}  // namespace lathe
