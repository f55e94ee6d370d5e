#include "reference/emit.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/dot.h"
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
    case Op::Matrices:
      s.act = Act::Matrices;
      s.memory = memory(base_memory(x), true);
      s.a = args[1];
      break;
    case Op::PanelDot:
      s.act = Act::PanelDot;
      s.memory = memory(base_memory(x), true);
      s.id = memory(base_memory(node.arg(2)), true);
      s.a = args[1];
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

std::uint32_t Emitter::scaled_index(std::vector<Step>& out, Node node, std::uint32_t index) {
  std::uint16_t lanes = base_memory(node.arg(0)).dtype().lanes;
  Node i = node.arg(1);
  if (lanes == 1 || i.is_const_int(0)) return index;
  std::uint32_t r = code_.take(i.dtype().lanes);
  DType wide = dtypes::Index.vec(i.dtype().lanes);
  out.push_back(scalar_step(Op::Mul, wide, r, index, constant(wide, {lanes, 0}), kNoRegister, wide.lanes));
  return r;
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
  s.index_lanes = node.arg(1).dtype().lanes;
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
