// Tensor-graph nodes with arithmetic operators, for steps that build graphs: axes of size 1 are expanded to
// the other operand's size, numbers take the other operand's dtype, and movement ops without effect are
// omitted. The nodes are built by ir/build.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/node.h"

namespace lathe {

using GraphSizes = SmallVector<Node, 8>;

class GraphValue {
 public:
  GraphValue(Node node) : node_(node) {}   // NOLINT: a value is its node
  operator Node() const { return node_; }  // NOLINT
  Node node() const { return node_; }
  DType dtype() const { return node_.dtype(); }
  std::size_t rank() const { return node_.rank(); }
  GraphSizes sizes() const { return GraphSizes(node_.shape().begin(), node_.shape().end()); }
  Node size(std::size_t axis) const { return node_.shape()[axis]; }

  GraphValue reshape(std::span<const Node> sizes) const;
  GraphValue reshape(std::initializer_list<Node> sizes) const {
    return reshape(std::span(sizes.begin(), sizes.size()));
  }
  // Leading axes are added; axes of size 1 grow.
  GraphValue expand(std::span<const Node> sizes) const;
  GraphValue with_axis(std::size_t axis) const;     // a new axis of size 1 there
  GraphValue without_axis(std::size_t axis) const;  // one of size 1 less
  GraphValue move_axis(std::size_t from, std::size_t to) const;
  GraphValue permute(std::initializer_list<std::int64_t> order) const;
  GraphValue shrink(std::size_t axis, Node begin, Node end) const;  // along one axis
  GraphValue at(std::size_t axis, Node position) const;             // there, without the axis
  // Along one axis, filled with a constant of the dtype.
  GraphValue pad(std::size_t axis, Node low, Node high, Element fill) const;

  GraphValue cast(DType dtype) const { return lathe::cast(node_, dtype); }
  GraphValue stored() const { return node_.is(Op::Contiguous) ? node_ : contiguous(node_); }
  GraphValue reduce(Op op, std::size_t axis) const;                     // the axis stays, with size 1
  GraphValue where(const GraphValue& yes, const GraphValue& no) const;  // of a condition
  GraphValue number(std::int64_t v) const { return int_const(node_.dtype(), v); }  // of the same dtype

 private:
  Node node_;
};

// The op over both operands, which are brought to one shape.
GraphValue apply_both(Op op, const GraphValue& x, const GraphValue& y);

inline GraphValue operator+(const GraphValue& x, const GraphValue& y) { return apply_both(Op::Add, x, y); }
inline GraphValue operator-(const GraphValue& x, const GraphValue& y) { return x + GraphValue(neg(y)); }
inline GraphValue operator*(const GraphValue& x, const GraphValue& y) { return apply_both(Op::Mul, x, y); }
inline GraphValue operator&(const GraphValue& x, const GraphValue& y) { return apply_both(Op::And, x, y); }
inline GraphValue operator|(const GraphValue& x, const GraphValue& y) { return apply_both(Op::Or, x, y); }
inline GraphValue operator<<(const GraphValue& x, std::int64_t y) {
  return apply_both(Op::Shl, x, x.number(y));
}
inline GraphValue operator>>(const GraphValue& x, std::int64_t y) {
  return apply_both(Op::Shr, x, x.number(y));
}
inline GraphValue operator<(const GraphValue& x, const GraphValue& y) { return apply_both(Op::Less, x, y); }
inline GraphValue operator+(const GraphValue& x, std::int64_t y) { return x + x.number(y); }
inline GraphValue operator-(const GraphValue& x, std::int64_t y) { return x + x.number(-y); }
inline GraphValue operator*(const GraphValue& x, std::int64_t y) { return x * x.number(y); }
inline GraphValue operator&(const GraphValue& x, std::int64_t y) { return x & x.number(y); }
inline GraphValue operator<(const GraphValue& x, std::int64_t y) { return x < x.number(y); }
inline GraphValue opposite(const GraphValue& x) { return logical_not(x); }
inline GraphValue same(const GraphValue& x, const GraphValue& y) { return apply_both(Op::Eq, x, y); }
inline GraphValue greater_of(const GraphValue& x, const GraphValue& y) { return apply_both(Op::Max, x, y); }
inline GraphValue lesser_of(const GraphValue& x, const GraphValue& y) { return apply_both(Op::Min, x, y); }

// The constant everywhere in a shape.
GraphValue filled(Node constant, std::span<const Node> sizes);
// 0, 1, ..., n-1 along `axis` of a shape of `rank` axes that are 1 elsewhere.
GraphValue counted_along(Node n, std::size_t axis, std::size_t rank, DType dtype);
// x[b, index[b, ...]]: rows of x (rows, n) at positions of their own; 0 where one is outside.
inline GraphValue take_in_rows(const GraphValue& x, const GraphValue& index) { return take(x, index, 1); }

}  // namespace lathe
