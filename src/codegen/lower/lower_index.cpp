#include "codegen/lower/lower_index.h"

#include <limits>
#include <optional>

#include "base/planted.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {
namespace {

constexpr std::int64_t kLow = std::numeric_limits<std::int32_t>::min(),
                       kHigh = std::numeric_limits<std::int32_t>::max();

bool is_wide(Node n) { return (n.lo() < kLow || n.hi() > kHigh) && !planted(Fault::IndexNarrow); }
DType machine(bool wide, std::uint16_t lanes = 1) {
  return (wide ? dtypes::Int64 : dtypes::Int32).vec(lanes);
}

// A constant in all lanes, else nothing.
std::optional<std::int64_t> constant(Node n) {
  if (n.is(Op::Splat)) n = n.arg(0);
  if (n.is_const() && n.attr().kind == Attr::Kind::Int) return n.int_attr();
  return std::nullopt;
}
Node constant_like(Node n, std::int64_t v) {
  return splat(int_const(n.dtype().element(), v), n.dtype().lanes);
}

// floor(x / y) and x - y * floor(x / y) on machine integers. Truncation equals floor for x >= 0, y > 0. Where
// x is bounded below and y is a constant c > 0, adding a multiple k*c >= -x moves it there: floor(x / c) =
// trunc((x + k*c) / c) - k.
Node floor_division(Op op, Node x, Node y) {
  bool divide = op == Op::FloorDiv;
  Op trunc = divide ? Op::TruncDiv : Op::TruncMod;
  if ((x.lo() >= 0 || planted(Fault::IndexFloor)) && y.lo() > 0) return apply(trunc, x, y);
  if (auto c = constant(y); c && *c > 0 && x.lo() > x.dtype().min_int()) {
    std::int64_t k = (-(x.lo() + 1)) / *c + 1;  // smallest k with k*c >= -x.lo
    if (k <= (x.dtype().max_int() - std::max<std::int64_t>(x.hi(), 0)) / *c) {
      Node moved = apply(trunc, x + constant_like(x, k * *c), y);
      return divide ? moved + constant_like(x, -k) : moved;
    }
  }
  // The remainder has the sign of x; where that differs from y's (and it is not 0), the quotient was rounded
  // up.
  Node zero = constant_like(x, 0);
  Node rest = apply(Op::TruncMod, x, y);
  Node differs = logical_and(apply(Op::Ne, rest, zero), apply(Op::Ne, less(rest, zero), less(y, zero)));
  if (!divide) return where(differs, rest + y, rest);
  return where(differs, apply(Op::TruncDiv, x, y) + constant_like(x, -1), apply(Op::TruncDiv, x, y));
}

class Lowering {
 public:
  Node run(Node kernel) {
    for (Node n : toposort(kernel)) done_.try_emplace(n, lower(n));
    return *done_.find(kernel);
  }

 private:
  Node at(Node old) const { return *done_.find(old); }

  // The lowered operand as a machine integer of the requested width.
  Node widened(Node old, bool wide) const {
    if (!old.dtype().is_index()) return at(old);
    if (auto c = constant(old)) return splat(int_const(machine(wide), *c), old.dtype().lanes);
    return cast(at(old), machine(wide));
  }
  bool wide_below(Node n) const {
    for (Node a : n.args())
      if (a.dtype().is_index() && !constant(a) && at(a).dtype().scalar == Scalar::Int64) return true;
    return false;
  }

  Node lower(Node n) {
    bool index = n.dtype().is_index(), over_index = index;
    for (Node a : n.args()) over_index |= a.dtype().is_index();
    if (!over_index) return floor_ops(n, [&](Node a) { return at(a); });
    switch (n.op()) {
      case Op::Const: return int_const(machine(is_wide(n)), n.int_attr());
      case Op::Var:
      case Op::Special: return intern(n.op(), machine(is_wide(n)), {}, n.attr());
      case Op::Iota: return intern(n.op(), machine(false, n.dtype().lanes), {});
      case Op::Range: {
        bool wide = is_wide(n.arg(0));
        // What is left of the parallel kinds is an ordinary loop.
        RangeKind kind = range_kind(n) == RangeKind::Global ? RangeKind::Loop : range_kind(n);
        AttrData d{"", {range_id(n), static_cast<std::int64_t>(kind)}};
        return intern(n.op(), machine(wide), {widened(n.arg(0), wide)}, Attr::of(d));
      }
      // Memory that holds indices has no bounds.
      case Op::Define: return intern(n.op(), machine(true, n.dtype().lanes), {}, n.attr());
      case Op::After: return with_operands(n, at(n.arg(0)).dtype());
      case Op::Load: return with_operands(n, index ? at(n.arg(0)).dtype().vec(n.dtype().lanes) : n.dtype());
      case Op::Store: return store_of(n);
      case Op::Cast: return cast(at(n.arg(0)), index ? machine(is_wide(n)) : n.dtype());
      case Op::Splat:
      case Op::Lane:
      case Op::HReduce:
      case Op::Vec: {
        bool wide = is_wide(n) || wide_below(n);
        SmallVector<Node, 16> args;
        for (Node a : n.args()) args.push_back(widened(a, wide));
        return intern(n.op(), machine(wide, n.dtype().lanes), args, n.attr());
      }
      default: break;
    }
    if (!is_scalar_op(n.op())) return with_operands(n, n.dtype());
    bool wide = wide_below(n) || (index && is_wide(n));
    for (Node a : n.args()) wide |= a.dtype().is_index() && is_wide(a);
    Node result = floor_ops(n, [&](Node a) { return widened(a, wide); });
    return index && wide && !is_wide(n) ? cast(result, machine(false)) : result;
  }

  template <class Operand>
  Node floor_ops(Node n, Operand operand) {
    if (n.is(Op::FloorDiv) || n.is(Op::FloorMod))
      return floor_division(n.op(), operand(n.arg(0)), operand(n.arg(1)));
    if (n.arg_count() == 0) return n;
    SmallVector<Node, 16> args;
    for (Node a : n.args()) args.push_back(operand(a));
    return rebuild(n, args);
  }
  Node with_operands(Node n, DType dtype) {
    SmallVector<Node, 16> args;
    for (Node a : n.args()) args.push_back(at(a));
    return intern(n.op(), dtype, args, n.attr());
  }
  Node store_of(Node n) {
    SmallVector<Node, 4> args;
    for (Node a : n.args()) args.push_back(at(a));
    if (n.arg(2).dtype().is_index()) args[2] = cast(args[2], args[0].dtype().element());
    return intern(n.op(), n.dtype(), args, n.attr());
  }

  NodeMap<Node> done_;
};

}  // namespace

Node lower_index(Node kernel) { return Lowering().run(kernel); }

}  // namespace lathe
