// Making nodes. `apply` puts operands of commutative ops in the canonical order (by structural key, constants
// right) and folds operations between integer constants, and x+0, x*1, x*0 on indices, so that shapes of
// equal size are equal nodes. Everything else that simplifies is a rule (src/rules).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/node.h"
#include "ir/value.h"

namespace lathe {

// ---- constants
Node index_const(std::int64_t v);
Node int_const(DType dtype, std::int64_t v);  // any integer dtype, index or bool; wrapped to the dtype
Node float_const(DType dtype, double v);      // rounded to the dtype
Node element_const(DType dtype, Element v);   // whichever the dtype needs
Node number(DType dtype, double v);           // v as a constant of any dtype
Node zero_of(DType dtype);
Node bool_const(bool v);
Element element_of(Node constant);
// The constant in every lane of a Const or a Splat of one, else null.
Node constant_of(Node node);

// ---- scalar ops
Node apply(Op op, Node x);
Node apply(Op op, Node x, Node y);
Node apply(Op op, Node x, Node y, Node z);
Node cast(Node x, DType dtype);  // x itself where the dtype is already right
Node bitcast(Node x, DType dtype);
// The index, or -1 where it is outside [0, size). That is a user error, found when the kernel runs and
// reported for `op`, where `when` holds. Returns the index itself if it cannot be outside.
Node check(Node index, Node size, Node when, std::string_view op);

inline Node operator+(Node x, Node y) { return apply(Op::Add, x, y); }
inline Node operator*(Node x, Node y) { return apply(Op::Mul, x, y); }
inline Node operator/(Node x, Node y) { return apply(Op::Div, x, y); }
Node neg(Node x);  // x * -1 for integers (the canonical form), Neg for floats
inline Node operator-(Node x, Node y) { return x + neg(y); }
inline Node floor_div(Node x, Node y) { return apply(Op::FloorDiv, x, y); }
inline Node floor_mod(Node x, Node y) { return apply(Op::FloorMod, x, y); }
inline Node max(Node x, Node y) { return apply(Op::Max, x, y); }
inline Node min(Node x, Node y) { return apply(Op::Min, x, y); }
inline Node less(Node x, Node y) { return apply(Op::Less, x, y); }
Node less_equal(Node x, Node y);  // not (y < x) on integers
inline Node equal(Node x, Node y) { return apply(Op::Eq, x, y); }
inline Node logical_and(Node x, Node y) { return apply(Op::And, x, y); }
inline Node where(Node condition, Node x, Node y) { return apply(Op::Where, condition, x, y); }
Node logical_not(Node x);

// ---- leaves
Node variable(std::string_view name, std::int64_t min, std::int64_t max);  // dtype index
Node new_buffer(DType dtype, std::int64_t size, std::string_view device);  // a fresh identity
Node buffer_with_id(std::int64_t id, DType dtype, std::int64_t size, std::string_view device);
Node param(DType dtype, std::int64_t slot, std::int64_t size);
// How the memory of a group lies and how often it is there: in rows of 128 bytes with exchanged pieces
// (ir/shared_memory.h), for so many steps of the loop that fills it, and whether boxes of a matrix are to
// come there as bulk copies.
struct SharedForm {
  bool swizzled = false;
  std::int64_t slots = 1;
  bool bulk = false;
};
Node define(DType dtype, std::int64_t id, std::int64_t size, Space space, SharedForm form = {});
Node range(Node extent, std::int64_t id, RangeKind kind);
Node special(std::string_view name, std::int64_t extent, DType dtype = dtypes::Index);

inline std::int64_t buffer_id(Node buffer) { return buffer.ints()[0]; }
inline std::int64_t buffer_size(Node buffer) { return buffer.ints()[1]; }
inline const std::string& buffer_device(Node buffer) { return buffer.text(); }
inline std::size_t buffer_bytes(Node buffer) {
  return static_cast<std::size_t>(buffer_size(buffer)) * static_cast<std::size_t>(buffer.dtype().bytes());
}
// A fresh identity of the same dtype, size and device.
inline Node new_buffer_like(Node buffer) {
  return new_buffer(buffer.dtype(), buffer_size(buffer), buffer_device(buffer));
}
// Of a Contiguous: "[...]" or nothing.
inline std::string_view attached_options(Node node) {
  return node.attr().kind == Attr::Kind::Data ? std::string_view(node.text()) : std::string_view();
}
inline std::int64_t range_id(Node range) { return range.ints()[0]; }
inline RangeKind range_kind(Node range) { return static_cast<RangeKind>(range.ints()[1]); }
inline std::int64_t param_slot(Node param) { return param.ints()[0]; }
inline std::int64_t memory_size(Node memory) { return memory.ints()[1]; }  // of Param, Define and Buffer
inline std::int64_t define_id(Node define) { return define.ints()[0]; }
inline Space define_space(Node define) { return static_cast<Space>(define.ints()[2]); }
inline SharedForm shared_form(Node define) {
  const auto& ints = define.ints();
  return ints.size() > 4 ? SharedForm{ints[3] != 0, ints[4], ints.size() > 5} : SharedForm{};
}
// Memory that all threads of a group have together.
inline bool is_group_memory(Node base) {
  return base.is(Op::Define) && (define_space(base) == Space::Shared || define_space(base) == Space::Barrier);
}

// ---- tensor graph
Node arange(DType dtype, Node size);  // 0..size-1, shape (size,)
Node reshape(Node x, std::span<const Node> sizes);
Node expand(Node x, std::span<const Node> sizes);
Node permute(Node x, std::span<const std::int64_t> order);
Node pad(Node x, std::span<const Node> low, std::span<const Node> high);
Node shrink(Node x, std::span<const Node> begin, std::span<const Node> end);
Node flip(Node x, std::span<const std::int64_t> axes);
Node skew(Node x, std::int64_t n_axis, std::int64_t k_axis, std::int64_t stride, std::int64_t dilation,
          Node size);
Node unskew(Node x, std::int64_t n_axis, std::int64_t k_axis, std::int64_t stride, std::int64_t dilation,
            Node size);
Node reduce_axes(Op op, Node x, std::span<const std::int64_t> axes);  // axes sorted; they stay with size 1
Node take(Node x, Node index, std::int64_t shared_axes = 0);
Node ragged_reduce(Op op, Node x, Node row, Node order, Node begin, Node end);
Node scatter(Op op, Node x, Node index, Node size);
Node scan(Op op, Node x, std::int64_t axis);
Node scan_by(Op op, Node x, std::int64_t axis, Node index, Node size);
Node sort_positions(Node x, std::int64_t keep);          // int32: where the least `keep` of each row are
Node contiguous(Node x, std::string_view options = "");  // options of the kernel that stores it, or none
Node detach(Node x);
Node copy_to(Node x, std::string_view device);

// ---- kernels
Node load(Node memory, Node index, Node gate = Node(), std::uint16_t lanes = 1);
Node store(Node memory, Node index, Node value, Node gate = Node());
Node reduce_ranges(Op op, Node element, std::span<const Node> ranges);  // itself where there are no ranges
Node after(Node memory, std::span<const Node> effects);
Node end(Node effect, std::span<const Node> ranges);  // itself where there are no ranges
Node sink(std::span<const Node> effects);
Node barrier(std::span<const Node> effects);
Node prefetch(Node memory, Node index, std::int64_t cache = 2);
inline Op reduce_op(Node reduce) {
  return static_cast<Op>(reduce.attr().kind == Attr::Kind::Int ? reduce.int_attr() : reduce.ints()[0]);
}
// What a value is a view of: the first node down its chain that is no movement op.
inline Node viewed(Node value) {
  while (is_movement(value.op())) value = value.arg(0);
  return value;
}
// The Param, Define or Buffer behind a chain of After.
Node base_memory(Node memory);

// ---- vectors
Node splat(Node x, std::uint16_t lanes);  // itself where x already has that many lanes
Node lane(Node x, std::int64_t i);
Node vec(std::span<const Node> scalars);
Node iota(DType scalar, std::uint16_t lanes);
Node hreduce(Op op, Node x);

// An index expression in the notation of a textbook: "(i*4 + j) % 3".
std::string index_text(Node node);

}  // namespace lathe
