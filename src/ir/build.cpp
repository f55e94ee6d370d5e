#include "ir/build.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/small_vector.h"

namespace lathe {

Node int_const(DType dtype, std::int64_t v) { return intern(Op::Const, dtype, {}, Attr::of(wrap(dtype, v))); }
Node index_const(std::int64_t v) { return intern(Op::Const, dtypes::Index, {}, Attr::of(v)); }
Node float_const(DType dtype, double v) { return intern(Op::Const, dtype, {}, Attr::of(round_to(dtype, v))); }
Node bool_const(bool v) { return intern(Op::Const, dtypes::Bool, {}, Attr::of(std::int64_t{v})); }
Node element_const(DType dtype, Element v) {
  return dtype.is_float() ? intern(Op::Const, dtype, {}, Attr::of(v.f))
                          : intern(Op::Const, dtype, {}, Attr::of(v.i));
}
Node number(DType dtype, double v) { return element_const(dtype, convert(dtype, dtypes::Float64, {0, v})); }
Node zero_of(DType dtype) { return element_const(dtype, {}); }
Element element_of(Node c) {
  return c.dtype().is_float() ? Element{0, c.float_attr()} : Element{c.int_attr(), 0};
}

namespace {

DType result_dtype(Op op, std::span<const Node> args) {
  switch (info(op).result) {
    case ResultKind::Boolean: return dtypes::Bool.vec(args[0].dtype().lanes);
    case ResultKind::Second: return args[1].dtype();
    default: return args[0].dtype();
  }
}

bool foldable(Node x) { return x.is_const() && x.attr().kind == Attr::Kind::Int && x.dtype().lanes == 1; }

// The identities that keep equal sizes equal; the general ones are rules.
Node index_identity(Op op, Node x, Node y) {
  if (!y.is_const()) return Node();
  std::int64_t c = y.int_attr();
  if (op == Op::Add && c == 0) return x;
  if (op == Op::Mul && c == 1) return x;
  if (op == Op::Mul && c == 0) return y;
  if (op == Op::FloorDiv && c == 1) return x;
  return Node();
}

}  // namespace

Node apply(Op op, Node x) {
  if (foldable(x)) return element_const(x.dtype(), evaluate(op, x.dtype(), element_of(x)));
  return intern(op, result_dtype(op, {&x, 1}), {x});
}

Node apply(Op op, Node x, Node y) {
  if (info(op).commutative) {
    bool swap = x.is_const() != y.is_const() ? x.is_const() : y.key() < x.key();
    if (swap) std::swap(x, y);
  }
  if (foldable(x) && foldable(y)) {
    Element v = evaluate(op, x.dtype(), element_of(x), element_of(y));
    return element_const(info(op).result == ResultKind::Boolean ? dtypes::Bool : x.dtype(), v);
  }
  if (x.dtype().scalar == Scalar::Index && x.dtype().lanes == 1)
    if (Node simple = index_identity(op, x, y)) return simple;
  Node args[] = {x, y};
  return intern(op, result_dtype(op, args), args);
}

Node apply(Op op, Node x, Node y, Node z) {
  Node args[] = {x, y, z};
  return intern(op, result_dtype(op, args), args);
}

Node cast(Node x, DType dtype) {
  dtype = dtype.vec(x.dtype().lanes);
  if (x.dtype() == dtype) return x;
  if (x.is_const()) return element_const(dtype, convert(dtype, x.dtype(), element_of(x)));
  return intern(Op::Cast, dtype, {x});
}

Node bitcast(Node x, DType dtype) {
  dtype = dtype.vec(x.dtype().lanes);
  return x.dtype() == dtype ? x : intern(Op::Bitcast, dtype, {x});
}

Node check(Node index, Node size, Node when, std::string_view op) {
  if (index.lo() >= 0 && index.hi() < size.lo()) return index;
  AttrData d{std::string(op), {}};
  Node args[] = {index, size, when};
  return intern(Op::Check, index.dtype(), args, Attr::of(d));
}

Node neg(Node x) {
  if (x.dtype().is_float()) return apply(Op::Neg, x);
  Node minus_one = int_const(x.dtype().element(), -1);
  return x * splat(minus_one, x.dtype().lanes);
}

Node less_equal(Node x, Node y) { return logical_not(less(y, x)); }

Node logical_not(Node x) { return apply(Op::Not, x); }

Node variable(std::string_view name, std::int64_t min, std::int64_t max) {
  if (min > max) throw UserError("variable", fmt::format("{} has an empty range [{}, {}]", name, min, max));
  AttrData d{std::string(name), {min, max}};
  return intern(Op::Var, dtypes::Index, {}, Attr::of(d));
}

Node buffer_with_id(std::int64_t id, DType dtype, std::int64_t size, std::string_view device) {
  AttrData d{std::string(device), {id, size}};
  return intern(Op::Buffer, dtype, {}, Attr::of(d));
}

Node new_buffer(DType dtype, std::int64_t size, std::string_view device) {
  static std::atomic<std::int64_t> next{1};
  return buffer_with_id(next.fetch_add(1), dtype, size, device);
}

namespace {
Node with_ints(Op op, DType dtype, std::initializer_list<std::int64_t> ints,
               std::span<const Node> args = {}) {
  AttrData d{"", ints};
  return intern(op, dtype, args, Attr::of(d));
}
Node with_ints(Op op, DType dtype, std::span<const std::int64_t> ints, std::span<const Node> args) {
  AttrData d{"", {ints.begin(), ints.end()}};
  return intern(op, dtype, args, Attr::of(d));
}
Node prepend(Op op, DType dtype, Node first, std::span<const Node> rest, std::span<const Node> more = {}) {
  SmallVector<Node, 16> args;
  args.push_back(first);
  args.append(rest.begin(), rest.end());
  args.append(more.begin(), more.end());
  return intern(op, dtype, std::span<const Node>(args.data(), args.size()));
}
}  // namespace

Node param(DType dtype, std::int64_t slot, std::int64_t size) {
  return with_ints(Op::Param, dtype, {slot, size});
}
Node define(DType dtype, std::int64_t id, std::int64_t size, Space space, SharedForm form) {
  const auto where = static_cast<std::int64_t>(space);
  if (!form.swizzled && form.slots == 1) return with_ints(Op::Define, dtype, {id, size, where});
  const std::int64_t swizzled = form.swizzled ? 1 : 0;
  if (form.bulk) return with_ints(Op::Define, dtype, {id, size, where, swizzled, form.slots, 1});
  return with_ints(Op::Define, dtype, {id, size, where, swizzled, form.slots});
}
Node range(Node extent, std::int64_t id, RangeKind kind) {
  return with_ints(Op::Range, dtypes::Index, {id, static_cast<std::int64_t>(kind)}, {&extent, 1});
}
Node special(std::string_view name, std::int64_t extent, DType dtype) {
  AttrData d{std::string(name), {extent}};
  return intern(Op::Special, dtype, {}, Attr::of(d));
}

Node arange(DType dtype, Node size) { return intern(Op::Arange, dtype, {size}); }
Node reshape(Node x, std::span<const Node> sizes) { return prepend(Op::Reshape, x.dtype(), x, sizes); }
Node expand(Node x, std::span<const Node> sizes) { return prepend(Op::Expand, x.dtype(), x, sizes); }
Node permute(Node x, std::span<const std::int64_t> order) {
  return with_ints(Op::Permute, x.dtype(), order, {&x, 1});
}
Node pad(Node x, std::span<const Node> low, std::span<const Node> high) {
  return prepend(Op::Pad, x.dtype(), x, low, high);
}
Node shrink(Node x, std::span<const Node> begin, std::span<const Node> end) {
  return prepend(Op::Shrink, x.dtype(), x, begin, end);
}
Node flip(Node x, std::span<const std::int64_t> axes) {
  return with_ints(Op::Flip, x.dtype(), axes, {&x, 1});
}
Node skew(Node x, std::int64_t n_axis, std::int64_t k_axis, std::int64_t stride, std::int64_t dilation,
          Node size) {
  Node args[] = {x, size};
  return with_ints(Op::Skew, x.dtype(), {n_axis, k_axis, stride, dilation}, args);
}
Node unskew(Node x, std::int64_t n_axis, std::int64_t k_axis, std::int64_t stride, std::int64_t dilation,
            Node size) {
  Node args[] = {x, size};
  return with_ints(Op::Unskew, x.dtype(), {n_axis, k_axis, stride, dilation}, args);
}
Node reduce_axes(Op op, Node x, std::span<const std::int64_t> axes) {
  AttrData d{"", {static_cast<std::int64_t>(op)}};
  d.ints.insert(d.ints.end(), axes.begin(), axes.end());
  return intern(Op::Reduce, x.dtype(), {x}, Attr::of(d));
}
Node take(Node x, Node index, std::int64_t shared_axes) {
  return intern(Op::Take, x.dtype(), {x, index}, Attr::of(shared_axes));
}
Node ragged_reduce(Op op, Node x, Node row, Node order, Node begin, Node end) {
  return intern(Op::RaggedReduce, x.dtype(), {x, row, order, begin, end},
                Attr::of(static_cast<std::int64_t>(op)));
}
Node scatter(Op op, Node x, Node index, Node size) {
  return intern(Op::Scatter, x.dtype(), {x, index, size}, Attr::of(static_cast<std::int64_t>(op)));
}
Node scan(Op op, Node x, std::int64_t axis) {
  AttrData d{"", {static_cast<std::int64_t>(op), axis}};
  return intern(Op::Scan, x.dtype(), {x}, Attr::of(d));
}
Node scan_by(Op op, Node x, std::int64_t axis, Node index, Node size) {
  AttrData d{"", {static_cast<std::int64_t>(op), axis}};
  return intern(Op::Scan, x.dtype(), {x, index, size}, Attr::of(d));
}
Node sort_positions(Node x, std::int64_t keep) {
  return intern(Op::Sort, dtypes::Int32, {x}, Attr::of(keep));
}
Node contiguous(Node x, std::string_view options) {
  if (options.empty()) return intern(Op::Contiguous, x.dtype(), {x});
  AttrData d{std::string(options), {}};
  return intern(Op::Contiguous, x.dtype(), {x}, Attr::of(d));
}
Node detach(Node x) { return intern(Op::Detach, x.dtype(), {x}); }
Node copy_to(Node x, std::string_view device) {
  AttrData d{std::string(device), {}};
  return intern(Op::Copy, x.dtype(), {x}, Attr::of(d));
}

Node load(Node memory, Node index, Node gate, std::uint16_t lanes) {
  DType dtype = memory.dtype().vec(std::max(lanes, index.dtype().lanes));
  if (gate && gate.is_const_int(1)) gate = Node();
  return gate ? intern(Op::Load, dtype, {memory, index, gate}) : intern(Op::Load, dtype, {memory, index});
}
Node store(Node memory, Node index, Node value, Node gate) {
  if (gate && gate.is_const_int(1)) gate = Node();
  return gate ? intern(Op::Store, dtypes::Void, {memory, index, value, gate})
              : intern(Op::Store, dtypes::Void, {memory, index, value});
}
Node reduce_ranges(Op op, Node element, std::span<const Node> ranges) {
  if (ranges.empty()) return element;
  SmallVector<Node, 16> args;
  args.push_back(element);
  args.append(ranges.begin(), ranges.end());
  return intern(Op::Reduce, element.dtype(), std::span<const Node>(args.data(), args.size()),
                Attr::of(static_cast<std::int64_t>(op)));
}
Node after(Node memory, std::span<const Node> effects) {
  return prepend(Op::After, memory.dtype(), memory, effects);
}
Node end(Node effect, std::span<const Node> ranges) {
  return ranges.empty() ? effect : prepend(Op::End, dtypes::Void, effect, ranges);
}
Node sink(std::span<const Node> effects) { return intern(Op::Sink, dtypes::Void, effects); }
Node barrier(std::span<const Node> effects) { return intern(Op::Barrier, dtypes::Void, effects); }
Node prefetch(Node memory, Node index, std::int64_t cache) {
  return intern(Op::Prefetch, dtypes::Void, {memory, index}, Attr::of(cache));
}

Node constant_of(Node node) {
  if (node.is(Op::Splat)) node = node.arg(0);
  return node.is_const() ? node : Node();
}

Node base_memory(Node memory) {
  while (memory.is(Op::After)) memory = memory.arg(0);
  return memory;
}

Node splat(Node x, std::uint16_t lanes) {
  if (x.dtype().lanes == lanes) return x;
  return intern(Op::Splat, x.dtype().vec(lanes), {x});
}
Node lane(Node x, std::int64_t i) {
  if (x.dtype().lanes == 1) return x;
  if (x.is(Op::Splat)) return x.arg(0);
  if (x.is(Op::Vec)) return x.arg(static_cast<std::size_t>(i));
  return intern(Op::Lane, x.dtype().element(), {x}, Attr::of(i));
}
Node vec(std::span<const Node> scalars) {
  if (scalars.size() == 1) return scalars[0];
  return intern(Op::Vec, scalars[0].dtype().vec(static_cast<std::uint16_t>(scalars.size())), scalars);
}
Node iota(DType scalar, std::uint16_t lanes) { return intern(Op::Iota, scalar.vec(lanes), {}); }
Node hreduce(Op op, Node x) {
  if (x.dtype().lanes == 1) return x;
  return intern(Op::HReduce, x.dtype().element(), {x}, Attr::of(static_cast<std::int64_t>(op)));
}

namespace {

struct Spelling {
  Op op;
  const char* text;
  int strength;
};
constexpr Spelling kSpellings[] = {
    {Op::Add, " + ", 4},    {Op::Mul, "*", 5},      {Op::FloorDiv, "/", 5}, {Op::FloorMod, "%", 5},
    {Op::TruncDiv, "/", 5}, {Op::TruncMod, "%", 5}, {Op::Sub, " - ", 4},    {Op::Less, " < ", 3},
    {Op::Eq, " == ", 3},    {Op::Ne, " != ", 3},    {Op::And, " & ", 2},    {Op::Or, " | ", 1},
    {Op::Xor, " ^ ", 1},    {Op::Shl, " << ", 3},   {Op::Shr, " >> ", 3},
};

std::string text_at(Node n, int strength) {
  if (n.is_const())
    return n.dtype().is_float() ? fmt::format("{}", n.const_float()) : fmt::format("{}", n.int_attr());
  if (n.is(Op::Var) || n.is(Op::Special)) return n.text();
  if (n.is(Op::Bind)) return n.arg(0).text();
  if (n.is(Op::Range)) return fmt::format("r{}", range_id(n));
  for (const Spelling& s : kSpellings)
    if (s.op == n.op()) {
      std::string body = text_at(n.arg(0), s.strength) + s.text + text_at(n.arg(1), s.strength + 1);
      return s.strength < strength ? "(" + body + ")" : body;
    }
  std::string out(info(n.op()).name);
  out += "(";
  for (std::size_t i = 0; i < n.arg_count(); ++i) out += (i > 0 ? ", " : "") + text_at(n.arg(i), 0);
  return out + ")";
}

}  // namespace

std::string index_text(Node node) { return text_at(node, 0); }

}  // namespace lathe
