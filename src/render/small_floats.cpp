// Half, bfloat16 and 8-bit floats as bits and float arithmetic. A small float's fields sit at the top of its
// word just as a float's do, so moving them to the float's place and multiplying by a power of two (the
// difference of the biases) gives the value, subnormal numbers included. The other way, adding a number whose
// last bit weighs as much as the small float's last bit lets the float addition do the rounding.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "render/prepare.h"

namespace lathe::render {
namespace {

struct Format {
  Scalar scalar;
  int bits, mantissa, bias;
  std::uint32_t largest;   // code of the largest finite value, without sign
  std::uint32_t overflow;  // code beyond it, without sign unless unsigned_nan
  std::uint32_t nan;
  bool infinite;      // codes above `largest` are infinity and NaN, as in IEEE formats
  bool unsigned_nan;  // fnuz: no negative zero, its code is the one NaN
};
constexpr Format kFormats[] = {
    {Scalar::Float16, 16, 10, 15, 0x7bff, 0x7c00, 0x7e00, true, false},
    {Scalar::Fp8e5m2, 8, 2, 15, 0x7b, 0x7c, 0x7e, true, false},
    {Scalar::Fp8e4m3, 8, 3, 7, 0x7e, 0x7f, 0x7f, false, false},
    {Scalar::Fp8e4m3fnuz, 8, 3, 8, 0x7f, 0x80, 0x80, false, true},
    {Scalar::Fp8e5m2fnuz, 8, 2, 16, 0x7f, 0x80, 0x80, false, true},
};

const Format& format_of(DType dtype) {
  for (const Format& format : kFormats)
    if (format.scalar == dtype.scalar) return format;
  throw InternalError("render", std::string(dtype.name()) + " is not a small float");
}

bool is_small(DType dtype) { return dtype.is_float() && dtype.bits() < 32; }

DType bits_dtype(DType dtype) {
  if (!is_small(dtype)) return dtype;
  return (dtype.bits() == 16 ? dtypes::UInt16 : dtypes::UInt8).vec(dtype.lanes);
}

Node word(std::uint32_t v, std::uint16_t lanes) { return splat(int_const(dtypes::UInt32, v), lanes); }
Node real(double v, std::uint16_t lanes) { return splat(float_const(dtypes::Float32, v), lanes); }
Node shl(Node x, int n) { return apply(Op::Shl, x, word(static_cast<std::uint32_t>(n), x.dtype().lanes)); }
Node shr(Node x, int n) { return apply(Op::Shr, x, word(static_cast<std::uint32_t>(n), x.dtype().lanes)); }
Node both(Node x, std::uint32_t mask) { return apply(Op::And, x, word(mask, x.dtype().lanes)); }
Node either(Node x, Node y) { return apply(Op::Or, x, y); }
Node equals(Node x, std::uint32_t v) { return equal(x, word(v, x.dtype().lanes)); }

Node bits_to_float(Node bits, DType from, NativeFloats native) {
  std::uint16_t n = bits.dtype().lanes;
  if (from.scalar == Scalar::Float16 && native.half)
    return cast(bitcast(bits, dtypes::Float16), dtypes::Float32);
  Node wide = cast(bits, dtypes::UInt32);
  if (from.scalar == Scalar::BFloat16) return bitcast(shl(wide, 16), dtypes::Float32);
  const Format& f = format_of(from);
  Node magnitude = shl(both(wide, (1u << (f.bits - 1)) - 1), 23 - f.mantissa);
  Node value = bitcast(magnitude, dtypes::Float32) * real(std::ldexp(1.0, 127 - f.bias), n);
  Node code = bitcast(value, dtypes::UInt32);
  if (f.infinite) {
    Node special = less(word(f.largest, n), both(wide, (1u << (f.bits - 1)) - 1));
    // A signalling NaN becomes quiet, as the instruction makes it.
    Node quiet =
        where(less(word(f.overflow, n), both(wide, (1u << (f.bits - 1)) - 1)), word(0x400000, n), word(0, n));
    code = where(special, either(either(magnitude, word(0x7f800000, n)), quiet), code);
  } else if (!f.unsigned_nan) {
    code = where(equals(both(wide, f.nan), f.nan), word(0x7fc00000, n), code);
  }
  Node sign = shl(both(wide, 1u << (f.bits - 1)), 32 - f.bits);
  Node signed_code = either(code, sign);
  if (f.unsigned_nan) signed_code = where(equals(wide, f.nan), word(0x7fc00000, n), signed_code);
  return bitcast(signed_code, dtypes::Float32);
}

Node float_to_bits(Node x, DType to, NativeFloats native) {
  std::uint16_t n = x.dtype().lanes;
  DType narrow = bits_dtype(to.element());
  if (to.scalar == Scalar::Float16 && native.half) return bitcast(cast(x, dtypes::Float16), narrow);
  if (to.scalar == Scalar::BFloat16 && native.bfloat16) return bitcast(cast(x, dtypes::BFloat16), narrow);
  Node code = bitcast(x, dtypes::UInt32);
  Node nan = apply(Op::Ne, x, x);
  if (to.scalar == Scalar::BFloat16) {
    Node rounded = shr(code + word(0x7fff, n) + both(shr(code, 16), 1), 16);
    return cast(where(nan, either(shr(code, 16), word(0x40, n)), rounded), narrow);
  }
  const Format& f = format_of(to);
  int drop = 23 - f.mantissa;
  Node sign = shr(both(code, 0x80000000), 32 - f.bits);
  Node magnitude = both(code, 0x7fffffff);
  // Subnormal numbers of the format: `anchor` has the format's smallest value as its last bit.
  Node anchor = real(std::ldexp(1.0, 1 - f.bias - f.mantissa + 23), n);
  Node tiny = bitcast(bitcast(magnitude, dtypes::Float32) + anchor, dtypes::UInt32);
  tiny = apply(Op::Sub, tiny, bitcast(anchor, dtypes::UInt32));
  Node normal = magnitude + word((1u << (drop - 1)) - 1, n) + both(shr(magnitude, drop), 1);
  normal = apply(Op::Sub, shr(normal, drop), word(static_cast<std::uint32_t>(127 - f.bias) << f.mantissa, n));
  Node is_tiny = less(magnitude, word(static_cast<std::uint32_t>(128 - f.bias) << 23, n));
  Node small = where(is_tiny, tiny, normal);
  Node too_large = less(word(f.largest, n), small);
  Node out;
  if (f.unsigned_nan) {
    out = where(equals(small, 0), small, either(small, sign));
    out = where(either(too_large, nan), word(f.nan, n), out);
  } else {
    Node quiet = word(f.nan, n);
    if (to.scalar == Scalar::Float16) quiet = either(both(shr(code, drop), 0x3ff), quiet);
    out = either(where(nan, quiet, where(too_large, word(f.overflow, n), small)), sign);
  }
  return cast(out, narrow);
}

class Lowering {
 public:
  Lowering(const Program& program, NativeFloats native) : out_(program), native_(native) {
    out_.code.clear();
    listed_.emplace_back();
    for (ProgramParam& p : out_.params) p.dtype = bits_dtype(p.dtype);
    for (const NodeRef& instruction : program.code) instruct(instruction);
  }
  Program take() { return std::move(out_); }

 private:
  void instruct(Node node) {
    for (Node arg : node.args()) lower_unlisted(arg);
    Node lowered = lower(node);
    map_[node] = lowered;
    if (node.is(Op::End) || node.is(Op::EndIf)) listed_.pop_back();
    list(lowered);
    if (node.is(Op::Range) || node.is(Op::If)) listed_.emplace_back();
  }

  // Operands that are not instructions: constants, params, and After over memory.
  void lower_unlisted(Node root) {
    std::vector<Node> stack{root};
    while (!stack.empty()) {
      Node node = stack.back();
      if (map_.contains(node)) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (Node arg : node.args())
        if (!map_.contains(arg)) {
          stack.push_back(arg);
          ready = false;
        }
      if (!ready) continue;
      stack.pop_back();
      Node lowered = lower(node);
      map_[node] = lowered;
    }
  }

  Node mapped(Node node) { return *map_.find(node); }
  Node as_float(Node arg) {
    Node x = mapped(arg);
    return is_small(arg.dtype()) ? bits_to_float(x, arg.dtype(), native_) : cast(x, dtypes::Float32);
  }

  Node lower(Node node) {
    if (node.is_const())
      return is_small(node.dtype())
                 ? element_const(bits_dtype(node.dtype()),
                                 reinterpret(bits_dtype(node.dtype()), node.dtype(), element_of(node)))
                 : node;
    if (node.is(Op::Cast)) return lower_cast(node);
    if (node.is(Op::Bitcast)) return bitcast(mapped(node.arg(0)), bits_dtype(node.dtype()).element());
    if (node.is(Op::HReduce) && is_small(node.dtype())) return lower_hreduce(node);
    if (is_scalar_op(node.op()) && node.op() != Op::Where && is_small(node.arg(0).dtype()))
      return lower_op(node);
    SmallArgs args;
    for (Node arg : node.args()) args.push_back(mapped(arg));
    return intern(node.op(), bits_dtype(node.dtype()), std::span<const Node>(args.data(), args.size()),
                  node.attr());
  }

  Node lower_cast(Node node) {
    Node arg = node.arg(0);
    if (is_small(node.dtype())) return float_to_bits(as_float(arg), node.dtype(), native_);
    return is_small(arg.dtype()) ? cast(as_float(arg), node.dtype().element())
                                 : cast(mapped(arg), node.dtype().element());
  }

  Node lower_op(Node node) {
    SmallArgs x;
    for (Node arg : node.args()) x.push_back(as_float(arg));
    Node value = intern(node.op(), node.dtype().is_bool() ? node.dtype() : x[0].dtype(),
                        std::span<const Node>(x.data(), x.size()));
    return node.dtype().is_bool() ? value : float_to_bits(value, node.dtype(), native_);
  }

  // Every step rounds, so the lanes are combined as scalars, in the order docs/ir.md gives.
  Node lower_hreduce(Node node) {
    Op op = static_cast<Op>(node.int_attr());
    DType dtype = node.dtype();
    Node bits = mapped(node.arg(0));
    std::vector<Node> lanes;
    for (int i = 0; i < bits.dtype().lanes; ++i) lanes.push_back(lane(bits, i));
    const auto step = [&](Node a, Node b) {
      Node x[] = {bits_to_float(a, dtype, native_), bits_to_float(b, dtype, native_)};
      return float_to_bits(intern(op, dtypes::Float32, x), dtype, native_);
    };
    bool halves = (lanes.size() & (lanes.size() - 1)) == 0;
    while (lanes.size() > 1) {
      std::size_t half = halves ? lanes.size() / 2 : 1;
      if (halves) {
        for (std::size_t i = 0; i < half; ++i) lanes[i] = step(lanes[i], lanes[i + half]);
        lanes.resize(half);
      } else {
        lanes[1] = step(lanes[0], lanes[1]);
        lanes.erase(lanes.begin());
      }
    }
    return lanes[0];
  }

  bool available(Node node) const {
    if (node.is_const() || node.is(Op::Param) || node.is(Op::After) || node.is(Op::Var)) return true;
    for (const NodeMap<bool>& scope : listed_)
      if (scope.contains(node)) return true;
    return false;
  }

  // Lists a node after those it needs.
  void list(Node root) {
    bool effect = root.dtype() == dtypes::Void || root.is(Op::Range) || root.is(Op::Load);
    std::vector<Node> stack{root};
    while (!stack.empty()) {
      Node node = stack.back();
      bool ready = true;
      if (!(node == root && effect) && available(node)) {
        stack.pop_back();
        continue;
      }
      for (Node arg : node.args())
        if (arg.dtype() != dtypes::Void && !available(arg)) {
          stack.push_back(arg);
          ready = false;
        }
      if (!ready) continue;
      stack.pop_back();
      listed_.back()[node] = true;
      out_.code.push_back(node);
    }
  }

  using SmallArgs = std::vector<Node>;
  Program out_;
  NativeFloats native_;
  NodeMap<Node> map_;
  std::vector<NodeMap<bool>> listed_;  // one per open scope
};

bool uses_small_floats(const Program& program) {
  for (const NodeRef& instruction : program.code) {
    Node node = instruction;
    if (is_small(node.dtype())) return true;
    for (Node arg : node.args())
      if (is_small(arg.dtype())) return true;
  }
  return false;
}

}  // namespace

Program lower_small_floats(const Program& program, NativeFloats native) {
  if (!uses_small_floats(program)) return program;
  Scope scope;
  return Lowering(program, native).take();
}

}  // namespace lathe::render
