#include "codegen/lower/bulk_boxes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/build.h"
#include "ir/shared_memory.h"
#include "ir/value.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// What a bulk copy takes at most along each axis.
constexpr std::int64_t kMostRows = 256;

// A sum as what all threads agree on and what each piece has for itself, with the constant.
struct Parts {
  Linear fixed, own;
};

// One store of the program, which every thread makes in every turn of its loops.
struct Copy {
  Node store;
  Parts to, from;
  std::vector<Parts> gates;  // each a number that is negative where the piece is copied
};
struct Piece {
  std::int64_t to = 0, from = 0;
  std::vector<std::int64_t> gates;
};

// Limits of a coordinate that mean the same for all pieces.
struct Limits {
  std::int64_t least = std::numeric_limits<std::int64_t>::min(),
               most = std::numeric_limits<std::int64_t>::max();
  bool any() const { return least != std::numeric_limits<std::int64_t>::min(); }
};

bool same_terms(const Linear& a, const Linear& b, std::int64_t factor = 1) {
  if (a.terms.size() != b.terms.size()) return false;
  for (std::size_t i = 0; i < a.terms.size(); ++i)
    if (a.terms[i].node != b.terms[i].node || a.terms[i].coefficient != b.terms[i].coefficient * factor)
      return false;
  return true;
}

class Follower {
 public:
  Follower(Node panel, const std::vector<Node>& loops) : panel_(panel) {
    for (Node loop : loops) varies_.try_emplace(loop, 1);
  }

  std::optional<PanelBoxes> run(const std::vector<Node>& stores) {
    if (!shared_form(panel_).swizzled || panel_.dtype().lanes != 1 || stores.empty()) return std::nullopt;
    for (Node store : stores)
      if (!add(store)) return std::nullopt;
    sources_.assign(static_cast<std::size_t>(memory_size(panel_) / piece()), kNone);
    pieces_.resize(copies_.size());
    for (std::size_t i = 0; i < copies_.size(); ++i)
      if (!follow(i)) return std::nullopt;
    if (!find_boxes() || !place() || !explain_gates() || !stays_inside()) return std::nullopt;
    return boxes_;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  std::int64_t piece() const { return kSwizzlePiece / panel_.dtype().bytes(); }
  std::int64_t row() const { return kSwizzleRow / panel_.dtype().bytes(); }

  bool varies(Node n) {
    if (const char* known = varies_.find(n)) return *known != 0;
    bool any = n.is(Op::Special) && n.text().starts_with("l");
    for (Node a : n.args()) any |= varies(a);
    varies_[n] = any ? 1 : 0;
    return any;
  }
  Parts split(const Linear& sum) {
    Parts parts;
    parts.own.constant = sum.constant;
    for (const Term& t : sum.terms)
      (varies(t.node) ? parts.own : parts.fixed).add_term(t.node, t.coefficient);
    return parts;
  }

  // ---- the stores

  bool add(Node store) {
    Node value = store.arg(2), load = value;
    if (value.is(Op::Vec) && value.arg(0).is(Op::Lane)) load = value.arg(0).arg(0);
    if (!load.is(Op::Load) || load.dtype().lanes != piece()) return false;
    Node source = base_memory(load.arg(0));
    if (boxes_.source && boxes_.source != source) return false;
    boxes_.source = source;
    Copy copy{store, split(linear(store.arg(1))), split(linear(load.arg(1))), {}};
    if (!copy.to.fixed.terms.empty()) return false;
    if (load.arg_count() > 2 && !add_gates(load.arg(2), copy)) return false;
    for (const Copy& other : copies_)
      if (!same_terms(other.from.fixed, copy.from.fixed)) return false;
    copies_.push_back(std::move(copy));
    return true;
  }
  bool add_gates(Node gate, Copy& copy) {
    if (gate.is(Op::And)) return add_gates(gate.arg(0), copy) && add_gates(gate.arg(1), copy);
    if (!gate.is(Op::Less) || !gate.arg(0).dtype().is_int()) return false;
    Linear apart = linear(gate.arg(0));
    apart.add(gate.arg(1), -1);
    copy.gates.push_back(split(apart));
    return true;
  }

  // ---- the pieces of all threads

  // The values of some nodes, over counters that are set from outside.
  struct Values {
    std::vector<Node> order;
    NodeMap<std::int64_t> at;
    bool compute() {
      for (Node n : order) {
        if (n.is_const()) {
          at[n] = n.int_attr();
        } else if (n.is(Op::Cast)) {
          at[n] = convert(n.dtype(), n.arg(0).dtype(), {*at.find(n.arg(0)), 0}).i;
        } else if (!n.is(Op::Special) && !n.is(Op::Range)) {
          if (!is_scalar_op(n.op()) || n.arg_count() > 3) return false;
          Element x[3];
          for (std::size_t i = 0; i < n.arg_count(); ++i) {
            if (!n.arg(i).dtype().is_int() && !n.arg(i).dtype().is_bool()) return false;
            x[i].i = *at.find(n.arg(i));
          }
          at[n] = evaluate(n.op(), n.arg(n.is(Op::Where) ? 1 : 0).dtype(), x[0], x[1], x[2]).i;
        }
      }
      return true;
    }
    std::int64_t sum(const Linear& of) const {
      std::int64_t total = of.constant;
      for (const Term& t : of.terms) total += t.coefficient * *at.find(t.node);
      return total;
    }
  };

  bool follow(std::size_t which) {
    const Copy& copy = copies_[which];
    Values values;
    std::vector<std::pair<Node, std::int64_t>> counters;  // and how far each counts
    auto need = [&](const Linear& sum) {
      for (const Term& t : sum.terms)
        for (Node n : toposort(t.node)) {
          if (!values.at.try_emplace(n).second) continue;
          values.order.push_back(n);
          const bool counter = n.is(Op::Special) || (n.is(Op::Range) && varies(n));
          const std::int64_t count = n.is(Op::Special) ? n.ints()[0] : n.is(Op::Range) ? n.arg(0).hi() : 0;
          if (counter && (count < 1 || (n.is(Op::Range) && !n.arg(0).is_const()))) return false;
          if (counter) counters.emplace_back(n, count);
          if (!counter && !n.is_const() && !varies(n)) return false;
        }
      return true;
    };
    Node gate = copy.store.arg_count() > 3 ? copy.store.arg(3) : Node();
    Linear gate_value;
    if (gate) gate_value.add_term(gate, 1);
    if (!need(copy.to.own) || !need(copy.from.own) || (gate && (!varies(gate) || !need(gate_value))))
      return false;
    for (const Parts& g : copy.gates)
      if (!need(g.own)) return false;
    std::int64_t points = 1;
    constexpr std::int64_t kMostPoints = 1 << 16;
    for (const auto& [node, count] : counters) points *= count;
    if (points > kMostPoints) return false;
    for (std::int64_t p = 0; p < points; ++p) {
      std::int64_t rest = p;
      for (const auto& [node, count] : counters) {
        values.at[node] = rest % count;
        rest /= count;
      }
      if (!values.compute()) return false;
      if (gate && values.sum(gate_value) == 0) continue;
      Piece made{values.sum(copy.to.own), values.sum(copy.from.own), {}};
      for (const Parts& g : copy.gates) made.gates.push_back(values.sum(g.own));
      if (made.to < 0 || made.to >= memory_size(panel_) || made.to % piece() != 0) return false;
      std::int64_t& source = sources_[static_cast<std::size_t>(made.to / piece())];
      if (source != kNone && source != made.from) return false;
      source = made.from;
      pieces_[which].push_back(std::move(made));
    }
    return true;
  }

  // ---- boxes

  std::int64_t source_of_line(std::int64_t line) const {
    return sources_[static_cast<std::size_t>(line * (row() / piece()))];
  }
  bool find_boxes() {
    const std::int64_t in_line = row() / piece(), lines = memory_size(panel_) / row();
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(sources_.size()); ++i) {
      const std::int64_t here = sources_[static_cast<std::size_t>(i)];
      if (here == kNone || here != source_of_line(i / in_line) + i % in_line * piece()) return false;
    }
    if (lines < kSwizzleRows) return false;
    BulkBox& box = boxes_.box;
    box.columns = row();
    box.pitch = source_of_line(1) - source_of_line(0);
    if (box.pitch < row() || box.pitch % piece() != 0) return false;
    auto is_run = [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t i = 1; i < count; ++i)
        if (source_of_line(first + i) != source_of_line(first) + i * box.pitch) return false;
      return true;
    };
    // The largest boxes of one size.
    for (box.rows = std::min(lines, kMostRows) / kSwizzleRows * kSwizzleRows; box.rows > 0;
         box.rows -= kSwizzleRows) {
      if (lines % box.rows != 0) continue;
      bool all = true;
      for (std::int64_t first = 0; first < lines && all; first += box.rows) all = is_run(first, box.rows);
      if (all) break;
    }
    return box.rows > 0;
  }

  // Columns and rows of the boxes; rows take whole pitches of what all threads agree on.
  bool place() {
    const std::int64_t pitch = boxes_.box.pitch;
    for (const Term& t : copies_[0].from.fixed.terms) {
      if (t.node.dtype() != dtypes::Int32 || t.coefficient < 0 || t.node.lo() < 0) return false;
      if (t.coefficient % pitch == 0)
        boxes_.row.add_term(t.node, t.coefficient / pitch);
      else if (t.coefficient < pitch && t.coefficient % piece() == 0)
        boxes_.column.add_term(t.node, t.coefficient);
      else
        return false;
    }
    const std::int64_t lines = memory_size(panel_) / row();
    for (std::int64_t first = 0; first < lines; first += boxes_.box.rows) {
      const std::int64_t source = source_of_line(first);
      if (source < 0 || source % piece() != 0) return false;
      boxes_.places.push_back({first * row(), source % pitch, source / pitch});
    }
    return true;
  }

  // ---- gates

  // Where a gate is open exactly where a coordinate is below a limit: for all pieces
  // coordinate - limit = factor*gate + rest, 0 <= rest < factor.
  std::optional<Limits> limits_of(std::size_t which, std::size_t gate, bool columns) const {
    const Parts& parts = copies_[which].gates[gate];
    const Linear& coordinate = columns ? boxes_.column : boxes_.row;
    for (std::int64_t factor = 1; factor <= 64; factor *= 2) {
      if (!same_terms(coordinate, parts.fixed, factor)) continue;
      std::int64_t least = std::numeric_limits<std::int64_t>::max(),
                   most = std::numeric_limits<std::int64_t>::min();
      for (const Piece& p : pieces_[which]) {
        const std::int64_t own = columns ? p.from % boxes_.box.pitch : p.from / boxes_.box.pitch,
                           apart = own - factor * p.gates[gate];
        least = std::min(least, apart), most = std::max(most, apart);
      }
      if (most - least < factor) return Limits{most - factor + 1, least};
    }
    return std::nullopt;
  }
  bool always_open(std::size_t which, std::size_t gate) const {
    const Linear& fixed = copies_[which].gates[gate].fixed;
    return std::all_of(pieces_[which].begin(), pieces_[which].end(),
                       [&](const Piece& p) { return fixed.hi() + p.gates[gate] < 0; });
  }
  bool explain_gates() {
    const BulkBox& box = boxes_.box;
    Limits columns, rows;
    std::vector<std::pair<bool, bool>> has(copies_.size());  // a limit of columns, of rows
    for (std::size_t i = 0; i < copies_.size(); ++i)
      for (std::size_t g = 0; g < copies_[i].gates.size(); ++g) {
        if (always_open(i, g)) continue;
        const std::optional<Limits> column = limits_of(i, g, true), row = limits_of(i, g, false);
        if (!column == !row) return false;
        const Limits& found = column ? *column : *row;
        Limits& limits = column ? columns : rows;
        limits = {std::max(limits.least, found.least), std::min(limits.most, found.most)};
        (column ? has[i].first : has[i].second) = true;
      }
    // Whole pieces are inside or outside.
    if (columns.any()) columns_ = (columns.least + piece() - 1) / piece() * piece();
    if (rows.any()) rows_ = rows.least;
    if ((columns.any() && columns_ > columns.most) || (rows.any() && rows_ > rows.most)) return false;
    // Copies that have no gate are inside whatever the limits of the others are.
    for (std::size_t i = 0; i < copies_.size(); ++i)
      for (const Piece& p : pieces_[i]) {
        if (columns_ != kNone && !has[i].first &&
            boxes_.column.hi() + p.from % box.pitch + piece() > columns_)
          return false;
        if (rows_ != kNone && !has[i].second && boxes_.row.hi() + p.from / box.pitch >= rows_) return false;
      }
    return true;
  }

  // What is copied without a gate is no more than the matrix has; where columns have no limit, no row of a
  // box reaches into the next row of the matrix.
  bool stays_inside() {
    BulkBox& box = boxes_.box;
    const std::int64_t size = memory_size(boxes_.source);
    std::int64_t column = 0, row = 0;
    for (const PanelBoxes::Place& p : boxes_.places)
      column = std::max(column, p.column), row = std::max(row, p.row);
    box.all_columns = columns_ != kNone ? columns_ : box.pitch;
    box.all_rows = rows_ != kNone ? rows_ : (size + box.pitch - box.all_columns) / box.pitch;
    if (columns_ == kNone && boxes_.column.hi() + column + box.columns > box.all_columns) return false;
    if (rows_ == kNone && boxes_.row.hi() + row + box.rows > box.all_rows) return false;
    return box.all_columns > 0 && box.all_rows > 0 && box.all_columns <= box.pitch &&
           (box.all_rows - 1) * box.pitch + box.all_columns <= size;
  }

  Node panel_;
  NodeMap<char> varies_;
  std::vector<Copy> copies_;
  std::vector<std::vector<Piece>> pieces_;  // of each copy
  std::vector<std::int64_t> sources_;       // of each piece of the panel
  std::int64_t columns_ = kNone, rows_ = kNone;
  PanelBoxes boxes_;
};

}  // namespace

std::optional<PanelBoxes> panel_boxes(Node panel, const std::vector<Node>& stores,
                                      const std::vector<Node>& loops) {
  return Follower(panel, loops).run(stores);
}

}  // namespace lathe
