#include "schedule/expand_scans.h"

#include <algorithm>

#include "base/error.h"
#include "ir/device_of.h"
#include "ir/shape.h"
#include "ir/walk.h"
#include "schedule/cost.h"
#include "schedule/graph_value.h"
#include "schedule/memory_view.h"
#include "schedule/sort_rows.h"

namespace lathe {
namespace {

double most(Node size) { return static_cast<double>(unbound(size).hi()); }

Node product(std::span<const Node> sizes) {
  Node all = index_const(1);
  for (Node s : sizes) all = all * s;
  return all;
}

// ---- running values

double others_of(Node x, std::size_t axis) {
  double others = 1;
  for (std::size_t a = 0; a < x.rank(); ++a) others *= a == axis ? 1 : most(x.shape()[a]);
  return others;
}

// Cuts a row into pieces, (..., pieces, steps), scans each and combines it with the total of the pieces
// before.
template <class Scan>
GraphValue joined_pieces(Op op, const GraphValue& last, std::int64_t pieces, std::int64_t steps, Scan scan) {
  const std::size_t axis = last.rank() - 1;
  const std::int64_t n = last.size(axis).const_int();
  const Element unit = unit_of(op, last.dtype());
  const Node zero = index_const(0), one = index_const(1);
  GraphSizes cut = last.sizes(), whole = cut;
  cut[axis] = index_const(pieces);
  cut.push_back(index_const(steps));
  whole[axis] = index_const(pieces * steps);
  GraphValue inner = scan(last.pad(axis, zero, index_const(pieces * steps - n), unit).reshape(cut), true);
  GraphValue totals = inner.at(axis + 1, index_const(steps - 1));
  GraphValue before =
      scan(totals, false).shrink(axis, zero, index_const(pieces - 1)).pad(axis, one, zero, unit);
  return apply_both(op, inner, before.with_axis(axis + 1)).reshape(whole).shrink(axis, zero, index_const(n));
}

// Prefixes are reduces over windows; longer rows are cut into chunks, so a scan of n costs about
// n * kScanWindow * (1 + 1/kScanWindow + ...).
GraphValue scan_by_windows(Op op, const GraphValue& x) {
  const std::size_t axis = x.rank() - 1;
  const Node size = x.size(axis);
  const std::int64_t n = size.const_int();
  if (n <= kScanWindow) {
    GraphSizes wide = x.sizes();
    wide[axis] = index_const(2 * n - 1);
    wide.push_back(size);
    GraphValue windows = x.pad(axis, index_const(n - 1), index_const(0), unit_of(op, x.dtype()))
                             .with_axis(axis + 1)
                             .expand(wide);
    const auto place = static_cast<std::int64_t>(axis);
    return GraphValue(skew(windows, place, place + 1, 1, 1, size))
        .reduce(op, axis + 1)
        .without_axis(axis + 1);
  }
  return joined_pieces(op, x, (n + kScanWindow - 1) / kScanWindow, kScanWindow,
                       [&](const GraphValue& part, bool inner) {
                         GraphValue out = scan_by_windows(op, part);
                         return inner ? out.stored() : out;
                       });
}

Node expand_scan(Node node, bool fast_threads) {
  Node x = node.arg(0);
  const auto axis = static_cast<std::size_t>(node.ints()[1]);
  // A scan by groups is part of a sort that is serial already; a scan of unknown length is not cut.
  if (node.arg_count() > 1 || !x.shape()[axis].is_const() || x.shape()[axis].is_const_int(0)) return node;
  if (fast_threads) return scan_in_pieces(reduce_op(node), x, axis);
  const std::size_t last = x.rank() - 1;
  return scan_by_windows(reduce_op(node), GraphValue(x).move_axis(axis, last)).move_axis(last, axis);
}

// ---- values by row

// The operands of a Scatter with one batch axis: index (batch, values), x (batch, values, rest...).
struct RowValues {
  Op op;
  GraphValue x, index;
  Node rows;

  explicit RowValues(Node scatter)
      : op(reduce_op(scatter)), x(scatter.arg(0)), index(scatter.arg(1)), rows(scatter.arg(2)) {
    if (index.rank() == 2) return;
    std::span<const Node> sizes = index.node().shape();
    const Node batch = product(sizes.first(sizes.size() - 1)), values = sizes.back();
    GraphSizes flat{batch, values};
    for (std::size_t a = sizes.size(); a < x.rank(); ++a) flat.push_back(x.size(a));
    x = x.reshape(flat);
    index = index.reshape({batch, values});
  }

  GraphSizes out() const {
    GraphSizes sizes = x.sizes();
    sizes[1] = rows;
    return sizes;
  }
  RowCounts counts() const {
    RowCounts c{most(index.size(0)), most(rows), most(index.size(1)), 1, true};
    for (std::size_t a = 2; a < x.rank(); ++a) c.width *= most(x.size(a));
    for (Node size : {index.size(0), rows, index.size(1)}) c.known &= size.is_const();
    return c;
  }
};

// Several serial scatters, each into an output of its own; the outputs are then combined.
GraphValue by_parts(const RowValues& v, std::int64_t parts) {
  const std::int64_t values = v.index.size(1).const_int(), steps = (values + parts - 1) / parts;
  const Node zero = index_const(0), padding = index_const(parts * steps - values);
  GraphSizes cut = v.x.sizes(), joined = v.out();
  cut[0] = cut[0] * index_const(parts);
  cut[1] = index_const(steps);
  GraphValue index = v.index.pad(1, zero, padding, {-1, 0}).reshape({cut[0], cut[1]});
  GraphValue x = v.x.pad(1, zero, padding, {}).reshape(cut);
  joined[1] = index_const(parts);
  GraphSizes apart{joined[0], joined[1], v.rows};
  apart.append(joined.begin() + 2, joined.end());
  return GraphValue(scatter(v.op, x, index, v.rows)).reshape(apart).reduce(v.op, 1).reshape(v.out());
}

GraphValue by_comparing(const RowValues& v) {
  GraphSizes thin{v.index.size(0), v.rows, v.index.size(1)}, wide = thin;
  for (std::size_t a = 2; a < v.x.rank(); ++a) {
    thin.push_back(index_const(1));
    wide.push_back(v.x.size(a));
  }
  // Spread over the rest before it is compared: a comparison that several elements share would be stored.
  const GraphSizes spread{thin[0], thin[1], thin[2]};
  GraphValue index = v.index.with_axis(1).expand(spread).reshape(thin).expand(wide);
  GraphValue row = counted_along(v.rows, 1, wide.size(), v.index.dtype());
  Node unit = element_const(v.x.dtype(), unit_of(v.op, v.x.dtype()));
  return same(index, row).where(v.x.with_axis(1), unit).reduce(v.op, 2).reshape(v.out());
}

// For each row the list of its values, in order, numbered over the whole batch: order[begin..end].
struct RowLists {
  GraphValue row, order, begin, end;
};

RowLists row_lists(const RowValues& v, bool fast_threads) {
  const Node batch = v.index.size(0);
  const std::int64_t rows = v.rows.const_int(), values = v.index.size(1).const_int();
  GraphValue index = v.index, number = counted_along(batch, 0, 2, dtypes::Int32);
  GraphValue inside = opposite(index < 0) & (index < rows);
  GraphValue keys =
      lesser_of(greater_of(inside.where(index, index.number(rows)), index.number(0)), index.number(rows));
  SortedRows sorted = sort_rows(keys.cast(dtypes::Int32), values, fast_threads);
  const GraphSizes ends{batch, index_const(rows + 1)};
  GraphValue queries = counted_along(ends[1], 1, 2, dtypes::Int32).expand(ends);
  GraphValue bounds = (count_less(sorted.keys, queries) + number * values).stored();
  const Node all = product(index.node().shape()), lists = batch * v.rows;
  GraphValue own = number.cast(index.dtype()) * rows;
  return {inside.where(index + own, index.number(-1)).cast(dtypes::Int32).reshape({all}),
          (sorted.order + number * values).stored().reshape({all}),
          bounds.shrink(1, index_const(0), v.rows).reshape({lists}),
          bounds.shrink(1, index_const(1), ends[1]).reshape({lists})};
}

// Whether each of the values (batch, n) is its place along the list, counted from 1.
bool counts_from_one(Node x) {
  Node row = x.is(Op::Expand) ? x.arg(0) : x, n = x.shape()[1];
  if (!row.is(Op::Add) || !row.arg(1).is_const_int(1)) return false;
  return row.arg(0) == counted_along(n, 1, 2, x.dtype()).node();
}

GraphValue by_lists(const RowValues& v, bool fast_threads) {
  const RowLists lists = row_lists(v, fast_threads);
  const bool plain = v.x.rank() == 2, ones = v.x.node().is(Op::Expand) && v.x.node().arg(0).is_const_int(1);
  GraphValue count = (lists.end - lists.begin).reshape({v.index.size(0), v.rows});
  // How many there are, and which is the last, is known from the lists alone.
  if (plain && ones && v.op == Op::Add) return count.cast(v.x.dtype());
  if (plain && v.op == Op::Max && v.x.dtype() == dtypes::Int32 && counts_from_one(v.x)) {
    GraphValue at = GraphValue(take(lists.order, lists.end - 1)).reshape(v.out());
    GraphValue before = counted_along(v.index.size(0), 0, 2, dtypes::Int32) * v.index.size(1).const_int();
    Node none = element_const(dtypes::Int32, unit_of(v.op, dtypes::Int32));
    return (GraphValue(int_const(dtypes::Int32, 0)) < count).where(at - before + 1, none);
  }
  GraphSizes flat = v.x.sizes();
  flat[1] = flat[0] * flat[1];
  const GraphSizes values(flat.begin() + 1, flat.end());
  return GraphValue(ragged_reduce(v.op, v.x.reshape(values), lists.row, lists.order, lists.begin, lists.end))
      .reshape(v.out());
}

Node expand_scatter(Node node, bool fast_threads) {
  for (Node size : node.shape())
    if (unbound(size).hi() == 0) return node;
  const RowValues v(node);
  const RowCounts counts = v.counts();
  if (counts.values == 0) return node;
  GraphValue out = node;
  switch (row_way(counts, fast_threads)) {
    case RowWay::Serial:
      if (const std::int64_t parts = scatter_parts(counts); parts > 1) out = by_parts(v, parts);
      break;
    case RowWay::Lists: out = by_lists(v, fast_threads); break;
    case RowWay::Compare: out = by_comparing(v); break;
  }
  return out.reshape(node.shape());
}

// ---- sorts

Node expand_sort(Node node, bool fast_threads) {
  const GraphValue x = node.arg(0);
  const Node n = x.node().shape().back();
  if (!n.is_const())
    throw UserError("sort", "an axis of " + index_text(n) + " elements, which are not known")
        .help("sort along an axis of a fixed size");
  for (Node size : node.shape())
    if (size.is_const_int(0)) return filled(int_const(dtypes::Int32, 0), node.shape());
  const Node rows = product(x.node().shape().first(x.rank() - 1));
  return sort_rows(x.reshape({rows, n}), node.int_attr(), fast_threads).order.reshape(node.shape());
}

struct Expansion {
  Op op;
  Node (*expand)(Node node, bool fast_threads);
};
constexpr Expansion kExpansions[] = {
    {Op::Scan, expand_scan},
    {Op::Scatter, expand_scatter},
    {Op::Sort, expand_sort},
};

const Expansion* expansion_of(Op op) {
  for (const Expansion& e : kExpansions)
    if (e.op == op) return &e;
  return nullptr;
}

}  // namespace

Node scan_in_pieces(Op op, Node x, std::size_t axis) {
  const std::int64_t n = x.shape()[axis].const_int();
  const std::int64_t pieces = scan_pieces(others_of(x, axis), n);
  if (pieces < 2) return scan(op, x, static_cast<std::int64_t>(axis));
  const std::size_t last = x.rank() - 1;
  return joined_pieces(op, GraphValue(x).move_axis(axis, last), pieces, (n + pieces - 1) / pieces,
                       [&](const GraphValue& part, bool) {
                         return GraphValue(scan_in_pieces(op, part, part.rank() - 1));
                       })
      .move_axis(last, axis);
}

std::vector<Node> expand_scans(std::span<const Node> targets, const std::string& default_device,
                               const std::function<bool(const std::string& device)>& fast_threads) {
  const std::vector<Node> order = toposort(targets);
  std::vector<Node> out(targets.begin(), targets.end());
  if (std::none_of(order.begin(), order.end(), [](Node n) { return expansion_of(n.op()) != nullptr; }))
    return out;
  const NodeMap<Node> sources = device_sources(order);
  // Targets keep their nodes: a result that became a view of memory of another shape would not be found by
  // its node.
  NodeMap<char> asked;
  for (Node t : targets) asked[viewed(t)] = 1;
  NodeMap<Node> done;
  rebuilt(order, done, [&](Node node, std::span<const Node> args) {
    const Expansion* expansion = expansion_of(node.op());
    if (expansion == nullptr) return Node();
    const Node source = *sources.find(node);
    const Node out =
        expansion->expand(rebuild(node, args), fast_threads(source ? source.text() : default_device));
    return asked.contains(node) && is_movement(out.op()) && numel_max(out) > 0 ? contiguous(out) : out;
  });
  for (Node& t : out) t = *done.find(t);
  return out;
}

}  // namespace lathe
