#include "schedule/graph_value.h"

#include <algorithm>

#include "ir/shape.h"

namespace lathe {
namespace {

bool same_sizes(std::span<const Node> a, std::span<const Node> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// A constant, or one everywhere in a shape: its movement is another shape.
Node constant_everywhere(Node x) {
  if (x.is(Op::Expand)) x = x.arg(0);
  return x.is_const() ? x : Node();
}

// The shape both grow to.
GraphSizes common_sizes(std::span<const Node> a, std::span<const Node> b) {
  const std::size_t rank = std::max(a.size(), b.size());
  GraphSizes out(rank, index_const(1));
  for (std::size_t i = 0; i < rank; ++i) {  // from the last axis
    Node x = i < a.size() ? a[a.size() - 1 - i] : index_const(1);
    Node y = i < b.size() ? b[b.size() - 1 - i] : index_const(1);
    out[rank - 1 - i] = x.is_const_int(1) ? y : x;
  }
  return out;
}

// Numbers are beside any shape.
Node fitted(const GraphValue& x, std::span<const Node> sizes) {
  return x.rank() == 0 ? x.node() : x.expand(sizes).node();
}

}  // namespace

GraphValue filled(Node constant, std::span<const Node> sizes) {
  return sizes.empty() ? constant : lathe::expand(constant, sizes);
}

GraphValue GraphValue::reshape(std::span<const Node> sizes) const {
  if (same_sizes(node_.shape(), sizes)) return *this;
  if (Node c = constant_everywhere(node_)) return filled(c, sizes);
  return lathe::reshape(node_, sizes);
}

GraphValue GraphValue::expand(std::span<const Node> sizes) const {
  if (same_sizes(node_.shape(), sizes)) return *this;
  if (Node c = constant_everywhere(node_)) return filled(c, sizes);
  GraphSizes thin(sizes.size() - rank(), index_const(1));
  thin.append(node_.shape().begin(), node_.shape().end());
  GraphValue ranked = reshape(thin);
  return same_sizes(thin, sizes) ? ranked : GraphValue(lathe::expand(ranked, sizes));
}

GraphValue GraphValue::with_axis(std::size_t axis) const {
  GraphSizes to;
  for (std::size_t i = 0; i <= rank(); ++i) {
    if (i == axis) to.push_back(index_const(1));
    if (i < rank()) to.push_back(size(i));
  }
  return reshape(to);
}

GraphValue GraphValue::without_axis(std::size_t axis) const {
  GraphSizes to;
  for (std::size_t i = 0; i < rank(); ++i)
    if (i != axis) to.push_back(size(i));
  return reshape(to);
}

GraphValue GraphValue::move_axis(std::size_t from, std::size_t to) const {
  if (from == to) return *this;
  SmallVector<std::int64_t, 8> order;
  for (std::size_t i = 0, next = 0; i < rank(); ++i) {
    if (next == from) ++next;
    order.push_back(static_cast<std::int64_t>(i == to ? from : next));
    if (i != to) ++next;
  }
  return lathe::permute(node_, order);
}

GraphValue GraphValue::permute(std::initializer_list<std::int64_t> order) const {
  return lathe::permute(node_, std::span(order.begin(), order.size()));
}

GraphValue GraphValue::shrink(std::size_t axis, Node begin, Node end) const {
  if (begin.is_const_int(0) && end == size(axis)) return *this;
  GraphSizes from(rank(), index_const(0)), to = sizes();
  from[axis] = begin;
  to[axis] = end;
  return lathe::shrink(node_, from, to);
}

GraphValue GraphValue::at(std::size_t axis, Node position) const {
  return shrink(axis, position, position + index_const(1)).without_axis(axis);
}

GraphValue GraphValue::pad(std::size_t axis, Node low, Node high, Element fill) const {
  if (low.is_const_int(0) && high.is_const_int(0)) return *this;
  GraphSizes before(rank(), index_const(0)), after = before;
  before[axis] = low;
  after[axis] = high;
  Node wide = lathe::pad(node_, before, after), value = element_const(dtype(), fill);
  if (value == zero_of(dtype())) return wide;
  Node inside = lathe::pad(filled(bool_const(true), node_.shape()), before, after);
  return lathe::where(inside, wide, value);
}

GraphValue GraphValue::reduce(Op op, std::size_t axis) const {
  const auto over = static_cast<std::int64_t>(axis);
  return reduce_axes(op, node_, std::span(&over, 1));
}

GraphValue GraphValue::where(const GraphValue& yes, const GraphValue& no) const {
  const GraphSizes values = common_sizes(yes.node().shape(), no.node().shape());
  const GraphSizes all = common_sizes(node_.shape(), values);
  return lathe::where(fitted(*this, all), fitted(yes, all), fitted(no, all));
}

GraphValue apply_both(Op op, const GraphValue& x, const GraphValue& y) {
  if (x.node().shape_node() == y.node().shape_node()) return apply(op, x, y);
  const GraphSizes all = common_sizes(x.node().shape(), y.node().shape());
  return apply(op, fitted(x, all), fitted(y, all));
}

GraphValue counted_along(Node n, std::size_t axis, std::size_t rank, DType dtype) {
  GraphSizes sizes(rank, index_const(1));
  sizes[axis] = n;
  return GraphValue(arange(dtype, n)).reshape(sizes);
}

}  // namespace lathe
