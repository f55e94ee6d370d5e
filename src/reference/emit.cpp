#include "reference/emit.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/access.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/group_ops.h"
#include "ir/text.h"

namespace lathe::reference {

Step scalar_step(Op op, DType operand, std::uint32_t dst, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                 std::uint16_t lanes) {
  Step s;
  s.act = Act::Scalar;
  s.fn = scalar_function(op, operand.element());
  s.op = op;
  s.dtype = operand.element();
  s.lanes = lanes;
  s.dst = dst;
  s.a = a;
  s.b = b == kNoRegister ? a : b;
  s.c = c == kNoRegister ? a : c;
  return s;
}

Step copy_step(std::uint32_t dst, std::uint32_t from, std::uint16_t lanes) {
  Step s;
  s.act = Act::Copy;
  s.lanes = lanes;
  s.dst = dst;
  s.a = from;
  return s;
}

std::uint32_t Emitter::constant(DType dtype, Element value) {
  std::uint32_t r = code_.take(dtype.lanes);
  for (std::uint32_t l = 0; l < dtype.lanes; ++l) code_.constants.emplace_back(r + l, cell_of(dtype, value));
  return r;
}

std::uint32_t Emitter::index(std::int64_t value) { return leaf(index_const(value)); }

std::uint32_t Emitter::leaf(Node node) {
  if (const std::uint32_t* known = leaves_.find(node)) return *known;
  std::uint32_t r = kNoRegister;
  if (node.is_const()) r = constant(node.dtype(), element_of(node));
  if (node.is(Op::Iota)) {
    r = code_.take(node.dtype().lanes);
    for (std::uint32_t l = 0; l < node.dtype().lanes; ++l) code_.constants.emplace_back(r + l, Cell{l});
  }
  if (node.is(Op::Var)) {
    r = code_.take(1);
    code_.variables.emplace_back(r, node.text());
  }
  if (r != kNoRegister) leaves_[node] = r;
  return r;
}

std::uint32_t Emitter::memory(Node base, bool in_group) {
  if (const std::uint32_t* known = memories_.find(base)) return *known;
  MemorySlot m;
  m.dtype = base.dtype().element();
  m.size = memory_size(base) * base.dtype().lanes;
  if (base.is(Op::Param)) {
    m.kind = MemorySlot::Kind::Param;
    m.slot = param_slot(base);
    m.name = fmt::format("param {}", m.slot);
  } else if (base.is(Op::Define)) {
    m.name = fmt::format("define {} ({})", define_id(base), name(define_space(base)));
    m.kind = in_group ? MemorySlot::Kind::Group : MemorySlot::Kind::Private;
    if (!in_group && registers_hold_memory_) m.base = code_.take(static_cast<std::uint32_t>(2 * m.size));
  } else {
    throw InternalError("reference", "no memory: " + print_node(base));
  }
  auto slot = static_cast<std::uint32_t>(code_.memories.size());
  code_.memories.push_back(std::move(m));
  memories_[base] = slot;
  return slot;
}

void Emitter::value(std::vector<Step>& out, Node node, std::span<const std::uint32_t> args,
                    std::uint32_t dst) {
  Step s;
  s.dst = dst;
  s.lanes = node.dtype().lanes;
  s.node = node;
  Node x = node.arg_count() > 0 ? node.arg(0) : Node();
  switch (node.op()) {
    case Op::Cast:
    case Op::Bitcast:
      s.act = node.is(Op::Cast) ? Act::Convert : Act::Bits;
      s.a = args[0];
      s.from = x.dtype().element();
      s.to = node.dtype().element();
      break;
    case Op::Check: {  // max(x < size ? x : -1, -1)
      DType dtype = node.dtype();
      const std::uint32_t below = code_.take(dtype.lanes), inside = code_.take(dtype.lanes);
      const std::uint32_t outside = constant(dtype, {-1, -1});
      out.push_back(scalar_step(Op::Less, dtype, below, args[0], args[1], kNoRegister, dtype.lanes));
      out.push_back(scalar_step(Op::Where, dtype, inside, below, args[0], outside, dtype.lanes));
      out.push_back(scalar_step(Op::Max, dtype, dst, inside, outside, args[2], dtype.lanes));
      out.back().node = node;
      out.back().checks = true;
      return;
    }
    case Op::Splat:
      s.act = Act::Splat;
      s.a = args[0];
      break;
    case Op::Vec:
      for (std::uint32_t l = 0; l < node.arg_count(); ++l) out.push_back(copy_step(dst + l, args[l], 1));
      return;
    case Op::Lane:
      out.push_back(copy_step(dst, args[0] + static_cast<std::uint32_t>(node.int_attr()), 1));
      return;
    case Op::Pack: {
      // Parts that are operands of their own are first put side by side.
      const auto parts = static_cast<std::uint32_t>(32 / x.dtype().bits());
      s.act = Act::Pack;
      s.a = args[0];
      if (args.size() > 1) {
        s.a = code_.take(static_cast<std::uint32_t>(node.dtype().lanes) * parts);
        for (std::uint32_t l = 0; l < node.dtype().lanes; ++l)
          for (std::uint32_t p = 0; p < parts; ++p)
            out.push_back(copy_step(s.a + l * parts + p, args[p] + l, 1));
      }
      s.from = x.dtype().element();
      s.jump = static_cast<std::int32_t>(parts);
      break;
    }
    case Op::Dot:
      s.act = dot_shape(node).threads > 1 ? Act::GroupDot : Act::Dot;
      s.a = args[0];
      s.b = args[1];
      s.c = args[2];
      break;
    case Op::Narrow:
    case Op::Table:
    case Op::Fraction:
    case Op::Scale: return machine_op(out, node, args, dst);
    case Op::Matrices:
      s.act = Act::Matrices;
      s.memory = memory(base_memory(x), true);
      s.a = args[1];
      break;
    case Op::Exchange:
      s.act = Act::Exchange;
      s.a = args[0];
      s.jump = static_cast<std::int32_t>(node.int_attr());
      break;
    case Op::PanelDot:
      s.act = Act::PanelDot;
      s.memory = holds_x(node) ? 0 : memory(base_memory(x), true);
      s.id = memory(base_memory(node.arg(2)), true);
      s.a = args[holds_x(node) ? 0 : 1];
      s.b = args[3];
      s.c = args[4];
      break;
    case Op::WaitProducts:
      s.act = Act::WaitProducts;
      s.a = args[0];
      break;
    case Op::HReduce:
      s.act = Act::HReduce;
      s.a = args[0];
      s.lanes = x.dtype().lanes;
      s.op = static_cast<Op>(node.int_attr());
      s.dtype = x.dtype().element();
      s.fn = scalar_function(s.op, s.dtype);
      break;
    default: {
      if (!is_scalar_op(node.op())) throw InternalError("reference", "cannot evaluate " + print_node(node));
      DType operand = node.arg(node.is(Op::Where) ? 1 : 0).dtype();
      s = scalar_step(node.op(), operand, dst, args[0], args.size() > 1 ? args[1] : kNoRegister,
                      args.size() > 2 ? args[2] : kNoRegister, node.dtype().lanes);
      s.node = node;
    }
  }
  out.push_back(s);
}

// In steps of their own dtypes; powers of two and products with them are exact in float64.
void Emitter::machine_op(std::vector<Step>& out, Node node, std::span<const std::uint32_t> args,
                         std::uint32_t dst) {
  const std::uint16_t lanes = node.dtype().lanes;
  const auto same = [&](DType dtype, double v) {
    return constant(dtype.vec(lanes), {static_cast<std::int64_t>(v), v});
  };
  const auto step = [&](Op op, DType operand, std::uint32_t a, std::uint32_t b,
                        std::uint32_t c = kNoRegister) {
    const std::uint32_t to = code_.take(lanes);
    out.push_back(scalar_step(op, operand, to, a, b, c, lanes));
    return to;
  };
  const auto convert = [&](std::uint32_t a, DType from, DType to, std::uint32_t into) {
    Step s;
    s.act = Act::Convert;
    s.lanes = lanes;
    s.a = a, s.dst = into, s.from = from, s.to = to, s.node = node;
    out.push_back(s);
    return into;
  };
  const DType f32 = dtypes::Float32, f64 = dtypes::Float64;
  const auto between = [&](DType dtype, std::uint32_t x, double limit) {
    return step(Op::And, dtypes::Bool, step(Op::Less, dtype, same(dtype, -limit), x),
                step(Op::Less, dtype, x, same(dtype, limit)));
  };
  // The integer next to x: adding this number leaves no room for a fraction; large numbers have none.
  const auto rounded = [&](std::uint32_t x) {
    const std::uint32_t wide = convert(x, f32, f64, code_.take(lanes)), far = same(f64, 0x1.8p52);
    const std::uint32_t whole = step(Op::Sub, f64, step(Op::Add, f64, wide, far), far);
    return step(Op::Where, f64, between(f64, wide, 0x1p51), whole, wide);
  };
  switch (node.op()) {
    case Op::Narrow: {
      const std::uint32_t x = args[0], zero = step(Op::Mul, f32, x, same(f32, 0));
      convert(step(Op::Where, f32, between(f32, x, 0x1p-126), zero, x), f32, dtypes::BFloat16, dst);
      return;
    }
    case Op::Table: {
      const DType index = node.arg(0).dtype().element(), entry = node.dtype().element();
      const auto& numbers = node.ints();
      const std::uint32_t at =
          step(Op::FloorMod, index, args[0], same(index, static_cast<double>(numbers.size())));
      std::uint32_t found = same(entry, static_cast<double>(numbers[0]));
      for (std::size_t i = 1; i < numbers.size(); ++i)
        found = step(Op::Where, entry, step(Op::Eq, index, at, same(index, static_cast<double>(i))),
                     same(entry, static_cast<double>(numbers[i])), found);
      out.push_back(copy_step(dst, found, lanes));
      return;
    }
    case Op::Fraction: {
      const std::uint32_t whole = convert(rounded(args[0]), f64, f32, code_.take(lanes));
      out.push_back(scalar_step(Op::Sub, f32, dst, args[0], whole, kNoRegister, lanes));
      return;
    }
    default: {
      const std::uint32_t n = args[1], x = convert(args[0], f32, f64, code_.take(lanes));
      const std::uint32_t limited =
          step(Op::Max, f64, step(Op::Min, f64, rounded(n), same(f64, 600)), same(f64, -600));
      const std::uint32_t product = step(Op::Mul, f64, x, step(Op::Exp2, f64, limited, kNoRegister));
      const std::uint32_t narrow = convert(product, f64, f32, code_.take(lanes));
      const double infinity = std::numeric_limits<double>::infinity();
      const std::uint32_t most = same(f32, infinity), least = same(f32, -infinity);
      const std::uint32_t low = step(Op::Where, f32, step(Op::Eq, f32, n, least), same(f32, 0), narrow);
      out.push_back(scalar_step(Op::Where, f32, dst, step(Op::Eq, f32, n, most), most, low, lanes));
    }
  }
}

std::uint32_t Emitter::scaled_index(std::vector<Step>& out, Node node, std::uint32_t index) {
  std::uint16_t lanes = base_memory(node.arg(0)).dtype().lanes;
  Node i = node.arg(1);
  if (lanes == 1 || i.is_const_int(0)) return index;
  std::uint32_t r = code_.take(i.dtype().lanes);
  DType wide = dtypes::Index.vec(i.dtype().lanes);
  out.push_back(scalar_step(Op::Mul, wide, r, index, constant(wide, {lanes, 0}), kNoRegister, wide.lanes));
  return r;
}

std::uint32_t Emitter::row_index(std::vector<Step>& out, Node node, DType value, std::uint32_t index) {
  const Access how = access_of(node);
  if (how.rows == 1) return index;
  const DType wide = dtypes::Index.vec(value.lanes);
  const std::int64_t columns = value.lanes / how.rows;
  const std::uint32_t steps = code_.take(value.lanes), all = code_.take(value.lanes),
                      places = code_.take(value.lanes);
  for (std::uint32_t l = 0; l < value.lanes; ++l)
    code_.constants.emplace_back(steps + l,
                                 cell_of(dtypes::Index, {l / columns * how.pitch + l % columns, 0}));
  Step s;
  s.act = Act::Splat;
  s.lanes = value.lanes;
  s.a = index, s.dst = all;
  out.push_back(s);
  out.push_back(scalar_step(Op::Add, wide, places, all, steps, kNoRegister, value.lanes));
  return places;
}

namespace {

Step access(Act act, Node node, std::uint32_t memory, std::uint32_t index, std::uint32_t gate,
            std::size_t gate_arg) {
  Step s;
  s.act = act;
  s.node = node;
  s.memory = memory;
  s.a = index;
  s.b = gate;
  const DType value = act == Act::Store || act == Act::PrivateStore ? node.arg(2).dtype() : node.dtype();
  s.index_lanes = access_of(node).rows > 1 ? value.lanes : node.arg(1).dtype().lanes;
  if (node.arg_count() > gate_arg) s.gate_lanes = node.arg(gate_arg).dtype().lanes;
  return s;
}

}  // namespace

Step Emitter::load(Node node, std::uint32_t memory, std::uint32_t index, std::uint32_t gate,
                   std::uint32_t dst) const {
  bool own = code_.memories[memory].kind == MemorySlot::Kind::Private;
  Step s = access(own ? Act::PrivateLoad : Act::Load, node, memory, index, gate, 2);
  code_.memories[memory].reads = true;
  s.lanes = node.dtype().lanes;
  s.dst = dst;
  return s;
}

Step Emitter::store(Node node, std::uint32_t memory, std::uint32_t index, std::uint32_t value,
                    std::uint32_t gate) const {
  bool own = code_.memories[memory].kind == MemorySlot::Kind::Private;
  Step s = access(own ? Act::PrivateStore : Act::Store, node, memory, index, gate, 3);
  code_.memories[memory].writes = true;
  s.lanes = node.arg(2).dtype().lanes;
  s.c = value;
  return s;
}

}  // namespace lathe::reference
