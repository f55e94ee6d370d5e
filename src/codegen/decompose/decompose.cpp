#include "codegen/decompose/decompose.h"

#include <algorithm>
#include <vector>

#include "base/small_vector.h"
#include "codegen/decompose/decompose_cast.h"
#include "codegen/decompose/decompose_integer.h"
#include "codegen/decompose/decompose_math.h"
#include "codegen/decompose/decompose_parts.h"
#include "ir/dot.h"
#include "ir/walk.h"
#include "target/matrix_units.h"

namespace lathe {
namespace {

using namespace decompose_parts;
using Args = std::span<const Node>;

// A small integer as a float without a conversion, which takes as long as several other operations: its
// bits are the last ones of 2^23 + x. A constant that is added is taken along. Null where x may be large.
Node small_whole(Node x) {
  constexpr std::int64_t kMost = 1 << 22;
  constexpr std::uint64_t kBits = 0x4b000000;  // of 2^23
  if (x.dtype().bits() > 32 || !x.dtype().is_int() || x.dtype().is_index()) return Node();
  std::int64_t added = 0;
  if (x.is(Op::Add) && x.dtype().bits() == 32 && x.arg(1).is_const())
    added = x.arg(1).int_attr(), x = x.arg(0);
  if (x.lo() < 0 || x.hi() >= kMost || added <= -kMost || added >= kMost) return Node();
  Node word = x.dtype().bits() == 32 ? bitcast(x, dtypes::UInt32) : cast(x, dtypes::UInt32);
  Node bits = bit_or(word, whole(x, dtypes::UInt32, kBits));
  return sub(bitcast(bits, dtypes::Float32),
             real(x, dtypes::Float32, static_cast<double>((1 << 23) - added)));
}

struct Context {
  const Target& target;
  NativeConversions native;
  bool all_native;  // REF evaluates every op on every dtype as it is
  // Where threads compute one value at a time, the greater of two small floats is not made small and wide
  // again: values of small floats -> the same in float32.
  NodeMap<Node>* wide;

  Node converted(Node x, DType to) const {
    if (wide == nullptr || to.element() != dtypes::Float32) return decompose_cast(x, to, native);
    if (const Node* same = wide->find(x)) return *same;
    Node sum = small_whole(x);
    return sum ? sum : decompose_cast(x, to, native);
  }
  Node narrowed(Op op, Node x, DType dtype) const {
    Node small = decompose_cast(x, dtype, native);
    if (wide != nullptr && (op == Op::Max || op == Op::Min)) wide->try_emplace(small, x);
    return small;
  }

  bool scales(Node x) const {
    const int lanes = x.dtype().lanes;
    return target.scales && (lanes == 4 || lanes == 8 || lanes == 16);
  }

  bool computes_in_float(Op op, DType dtype) const {
    if (!is_small_float(dtype) || op == Op::Where || all_native) return false;
    switch (op) {  // rounded once in float and once more: hardware of that dtype would round once
      case Op::Fma:
      case Op::Exp2:
      case Op::Log2:
      case Op::Sin:
      case Op::Cos: return true;
      default: return target.emulates(dtype);
    }
  }
};

Node bool_op(Op op, Args a) {
  switch (op) {
    case Op::Add:
    case Op::Max: return bit_or(a[0], a[1]);
    case Op::Mul:
    case Op::Min: return bit_and(a[0], a[1]);
    case Op::Less: return bit_and(logical_not(a[0]), a[1]);
    case Op::Eq: return logical_not(bit_xor(a[0], a[1]));
    case Op::Ne: return bit_xor(a[0], a[1]);
    default: return Node();
  }
}

Node integer_op(Op op, Args a) {
  switch (op) {
    case Op::FloorDiv:
    case Op::FloorMod:
    case Op::TruncDiv:
    case Op::TruncMod: return decompose_division(op, a[0], a[1]);
    case Op::Shl:
    case Op::Shr: return decompose_shift(op, a[0], a[1]);
    default: return Node();
  }
}

Node float_op(Op op, Args a, const Context& context) {
  switch (op) {
    case Op::Exp2:
    case Op::Log2:
    case Op::Sin:
    case Op::Cos: {
      const bool native = a[0].dtype().element() == dtypes::Float32 && context.target.has_native(op);
      return context.all_native || native
                 ? Node()
                 : decompose_math(op, a[0], context.target.fma, context.scales(a[0]));
    }
    case Op::Recip: return real(a[0], a[0].dtype(), 1) / a[0];
    default: return Node();
  }
}

Node plain_op(Op op, Args a) {
  if (a.size() == 1) return apply(op, a[0]);
  return a.size() == 2 ? apply(op, a[0], a[1]) : apply(op, a[0], a[1], a[2]);
}

// `op` over operands that are already decomposed.
Node scalar_op(Op op, Args a, const Context& context) {
  DType dtype = a[0].dtype();
  if (context.computes_in_float(op, dtype)) {
    SmallVector<Node, 3> wide;
    for (Node x : a) wide.push_back(context.converted(x, dtypes::Float32));
    Node result = scalar_op(op, Args(wide.data(), wide.size()), context);
    return result.dtype().is_float() ? context.narrowed(op, result, dtype) : result;
  }
  Node out;
  if (op == Op::Where)
    out = Node();
  else if (dtype.is_bool())
    out = bool_op(op, a);
  else if (dtype.is_int() && !dtype.is_index())
    out = integer_op(op, a);  // lower_index sees to indices
  else if (dtype.is_float())
    out = float_op(op, a, context);
  return out ? out : plain_op(op, a);
}

// All lanes combined in the order docs/ir.md fixes, where the target cannot combine this dtype itself.
Node lanes_combined(Op op, Node x, const Context& context) {
  std::vector<Node> lanes;
  for (int i = 0; i < x.dtype().lanes; ++i) lanes.push_back(lane(x, i));
  auto combine = [&](Node l, Node r) {
    Node pair[] = {l, r};
    return scalar_op(op, pair, context);
  };
  std::size_t n = lanes.size();
  if ((n & (n - 1)) == 0) {
    for (; n > 1; n /= 2)
      for (std::size_t i = 0; i < n / 2; ++i) lanes[i] = combine(lanes[i], lanes[i + n / 2]);
    return lanes[0];
  }
  Node sum = lanes[0];
  for (std::size_t i = 1; i < n; ++i) sum = combine(sum, lanes[i]);
  return sum;
}

Node horizontal(Node node, Node x, const Context& context) {
  Op op = reduce_op(node);
  if (x.dtype().is_bool()) {
    if (op == Op::Add || op == Op::Max) return hreduce(Op::Or, x);
    if (op == Op::Mul || op == Op::Min) return hreduce(Op::And, x);
  }
  if (context.computes_in_float(op, x.dtype().element())) return lanes_combined(op, x, context);
  return Node();
}

// Parts of a word moved to their places and joined.
Node packed(Args parts) {
  const std::uint16_t lanes = parts[0].dtype().lanes;
  const int bits = parts[0].dtype().bits();
  const DType code = bits == 8 ? dtypes::UInt8 : dtypes::UInt16;
  Node word;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Node part = cast(bitcast(parts[i], code), dtypes::UInt32);
    Node amount = splat(int_const(dtypes::UInt32, bits * static_cast<int>(i)), lanes);
    if (i > 0) part = apply(Op::Shl, part, amount);
    word = word ? bit_or(word, part) : part;
  }
  return word;
}

// A word that is one number of 32 bits.
bool one_number(Node pack) { return pack.arg_count() == 1 && pack.arg(0).dtype().bits() == 32; }

bool has_instruction(Node dot, const Target& target) {
  if (dot_shape(dot).is_tile()) return true;  // made only for a target that has it
  const MatrixUnit* unit = unit_for_dot(target.units, dot.text());
  const int lanes = dot.dtype().lanes;
  return unit != nullptr && lanes >= 4 && lanes <= unit->most_lanes && (lanes & (lanes - 1)) == 0;
}

Node decomposed(Node node, Args args, const Context& context) {
  Node out;
  if (is_scalar_op(node.op()))
    out = scalar_op(node.op(), args, context);
  else if (node.is(Op::Cast))
    out = context.all_native ? Node() : context.converted(args[0], node.dtype());
  else if (node.is(Op::HReduce))
    out = horizontal(node, args[0], context);
  else if (node.is(Op::Pack))
    out = one_number(node)                         ? bitcast(args[0], dtypes::UInt32)
          : context.all_native || args.size() == 1 ? Node()
                                                   : packed(args);
  else if (node.is(Op::Dot) && !context.all_native && !has_instruction(node, context.target))
    out = dot_by_parts(dot_kind(node), args[0], args[1], args[2], context.target.fma);
  return out ? out : rebuild(node, args);
}

}  // namespace

Node decompose(Node root, const Target& target) {
  NodeMap<Node> wide;
  Context context{target, {}, target.reference, target.vectors ? nullptr : &wide};
  for (Scalar s : target.converted) {
    context.native.half |= s == Scalar::Float16;
    context.native.bfloat16 |= s == Scalar::BFloat16;
  }
  NodeMap<Node> done;
  SmallVector<Node, 16> args;
  for (Node node : toposort(root)) {
    args.clear();
    for (Node a : node.args()) args.push_back(*done.find(a));
    done.try_emplace(node, decomposed(node, Args(args.data(), args.size()), context));
  }
  return *done.find(root);
}

}  // namespace lathe
