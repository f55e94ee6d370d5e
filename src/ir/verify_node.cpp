#include "ir/verify_node.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ir/access.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/group_ops.h"
#include "ir/ranges.h"
#include "ir/wellformed.h"

namespace lathe {
namespace {

std::string name_of(Node n) { return std::string(info(n.op()).name); }

bool in_domain(Op op, DType dtype) {
  const OpInfo& row = info(op);
  return dtype.is_bool() ? row.on_bool : dtype.is_float() ? row.on_float : dtype.is_int() && row.on_int;
}

bool is_effect(Node n) { return n.dtype() == dtypes::Void; }

std::string scalar_op_fault(Node n, Form form) {
  bool where = n.is(Op::Where);
  DType operand = n.arg(where ? 1 : 0).dtype();
  for (std::size_t i = where ? 1 : 0; i < n.arg_count(); ++i)
    if (n.arg(i).dtype() != operand)
      return fmt::format("{} has operands of {} and {}", name_of(n), operand.str(), n.arg(i).dtype().str());
  if (where && n.arg(0).dtype() != dtypes::Bool.vec(operand.lanes))
    return fmt::format("the condition of Where is {}, not {}", n.arg(0).dtype().str(),
                       dtypes::Bool.vec(operand.lanes).str());
  if (!in_domain(n.op(), operand)) return fmt::format("{} is not defined on {}", name_of(n), operand.str());
  DType want = info(n.op()).result == ResultKind::Boolean ? dtypes::Bool.vec(operand.lanes) : operand;
  if (n.dtype() != want)
    return fmt::format("{} of {} gives {}, not {}", name_of(n), operand.str(), want.str(), n.dtype().str());
  if (operand.is_index() && (n.is(Op::Sub) || n.is(Op::Neg)))
    return fmt::format("{} is in an index expression: write x + y * -1", name_of(n));
  if (form == Form::Program && (n.is(Op::FloorDiv) || n.is(Op::FloorMod)))
    return fmt::format("{} in a program: lowering leaves TruncDiv and TruncMod", name_of(n));
  return "";
}

std::string const_fault(Node n) {
  if (n.dtype().is_float()) {
    double v = n.float_attr();
    return std::isnan(v) || round_to(n.dtype(), v) == v
               ? ""
               : fmt::format("{} is not a value of {}", v, n.dtype().str());
  }
  if (n.dtype() == dtypes::Void) return "a constant of dtype void";
  return wrap(n.dtype(), n.int_attr()) == n.int_attr()
             ? ""
             : fmt::format("{} is not a value of {}", n.int_attr(), n.dtype().str());
}

std::string cast_fault(Node n, Form form) {
  DType from = n.arg(0).dtype(), to = n.dtype();
  if (from == dtypes::Void || to == dtypes::Void) return name_of(n) + " of a node without a value";
  if (from.lanes != to.lanes)
    return fmt::format("{} from {} to {}: lanes differ", name_of(n), from.str(), to.str());
  if (to.is_index() && from.is_float())
    return fmt::format("{} in an index: only integers become an index", from.str());
  if (n.is(Op::Bitcast)) {
    if (from.is_index() || to.is_index()) return "the bits of an index have no meaning";
    if (form != Form::Tensor && from.bits() != to.bits())
      return fmt::format("Bitcast from {} to {}: widths differ", from.str(), to.str());
  }
  return "";
}

std::string check_fault(Node n) {
  DType index = n.arg(0).dtype();
  if (!index.is_int() || index.is_unsigned() || n.arg(1).dtype() != index || n.dtype() != index)
    return fmt::format("Check of {} against {} gives {}", index.str(), n.arg(1).dtype().str(),
                       n.dtype().str());
  return n.arg(2).dtype() == dtypes::Bool.vec(index.lanes)
             ? ""
             : fmt::format("the condition of Check is {}", n.arg(2).dtype().str());
}

// ---- memory

bool is_kernel_memory(Node base, Form form) {
  return base.is(Op::Define) || base.is(form == Form::Planned ? Op::Buffer : Op::Param);
}

std::string memory_fault(Node user, Node memory, Form form) {
  Node base = base_memory(memory);
  if (is_kernel_memory(base, form)) return "";
  return fmt::format("{} of {}, which is not memory", name_of(user), name_of(base));
}

std::string index_fault(Node user, Node index, Form form) {
  Scalar s = index.dtype().scalar;
  bool machine = s == Scalar::Int32 || s == Scalar::Int64;
  const bool ranges = form == Form::Kernel || form == Form::Planned;
  bool ok = ranges ? s == Scalar::Index : form == Form::Program ? machine : machine || s == Scalar::Index;
  return ok ? "" : fmt::format("the index of {} is {}", name_of(user), index.dtype().str());
}

std::string gate_fault(Node user, std::size_t place, std::uint16_t lanes) {
  if (user.arg_count() <= place) return "";
  DType gate = user.arg(place).dtype();
  if (gate.is_bool() && (gate.lanes == 1 || gate.lanes == lanes)) return "";
  return fmt::format("the gate of {} is {}, not {} or {}", name_of(user), gate.str(), dtypes::Bool.str(),
                     dtypes::Bool.vec(lanes).str());
}

std::string rows_fault(Node n, Node value, Form form) {
  if (n.attr().kind == Attr::Kind::None) return "";
  if (form != Form::Program) return fmt::format("{} has an attribute outside of a program", name_of(n));
  const Access how = access_of(n);
  if (n.is(Op::Store) && how.past > 0) return "a Store goes past the caches in every step or in none";
  if (how.rows == 1) return "";
  if (!base_memory(n.arg(0)).is(Op::Param))
    return fmt::format("{} of rows of something that is not a param", name_of(n));
  const std::int64_t lanes = value.dtype().lanes;
  const bool even = lanes % how.rows == 0 && n.arg(1).dtype().lanes == 1 && how.pitch >= lanes / how.rows;
  return even ? ""
              : fmt::format("{} of {} rows {} apart of {}", name_of(n), how.rows, how.pitch,
                            value.dtype().str());
}

std::string access_fault(Node n, Node value, std::size_t most, Form form) {
  if (n.arg_count() > most)
    return fmt::format("{} has {} operands, at most {}", name_of(n), n.arg_count(), most);
  if (std::string f = memory_fault(n, n.arg(0), form); !f.empty()) return f;
  if (std::string f = index_fault(n, n.arg(1), form); !f.empty()) return f;
  DType memory = n.arg(0).dtype(), index = n.arg(1).dtype();
  if (value.dtype().scalar != memory.scalar)
    return fmt::format("{} moves {} and the memory holds {}", name_of(n), value.dtype().str(), memory.str());
  if (index.lanes != 1 && index.lanes != value.dtype().lanes)
    return fmt::format("{} of {} lanes with an index of {}", name_of(n), value.dtype().lanes, index.lanes);
  if (std::string f = rows_fault(n, value, form); !f.empty()) return f;
  return gate_fault(n, most - 1, value.dtype().lanes);
}

std::string prefetch_fault(Node n, Form form) {
  if (std::string f = memory_fault(n, n.arg(0), form); !f.empty()) return f;
  if (n.arg(1).dtype().lanes != 1) return "a Prefetch of several places";
  if (n.int_attr() < 1 || n.int_attr() > 3) return "a Prefetch into a cache that is none of 1, 2 and 3";
  return index_fault(n, n.arg(1), form);
}

bool is_view(Node n) {
  while (is_movement(n.op()) || n.is(Op::Bitcast)) n = n.arg(0);
  return base_memory(n).is(Op::Buffer);
}

std::string store_fault(Node n, Form form) {
  if (form != Form::Tensor) {
    if (n.arg_count() < 3) return "a Store in a kernel takes memory, index and value";
    return access_fault(n, n.arg(2), 4, form);
  }
  if (n.arg_count() != 2) return "a Store in a tensor graph takes a view and a value";
  if (!is_view(n.arg(0))) return "a Store to something that is not a view of a buffer";
  if (n.arg(0).dtype() != n.arg(1).dtype())
    return fmt::format("a Store of {} to a view of {}", n.arg(1).dtype().str(), n.arg(0).dtype().str());
  return "";
}

std::string after_fault(Node n, Form form) {
  Node base = base_memory(n);
  bool memory = form == Form::Tensor ? base.is(Op::Buffer) : is_kernel_memory(base, form);
  if (!memory) return fmt::format("After of {}, which is not memory", name_of(base));
  if (n.dtype() != base.dtype())
    return fmt::format("After of {} memory is {}", base.dtype().str(), n.dtype().str());
  if (form != Form::Tensor) return "";
  for (Node effect : n.args().subspan(1)) {
    if (effect.is(Op::Buffer) && effect.ints()[1] == 0)
      continue;  // the name of a version (tensor/versions.h)
    if (!is_effect(effect)) return fmt::format("After waits for {}, which is not an effect", name_of(effect));
    if (effect.is(Op::Launch)) {
      auto names = [&](Node memory) { return base_memory(memory) == base; };
      if (std::none_of(effect.args().begin(), effect.args().end(), names))
        return "After of a buffer waits for a kernel that does not name it";
      continue;
    }
    if (!effect.is(Op::Store)) continue;
    Node at = effect.arg(0);
    while (is_movement(at.op()) || at.is(Op::Bitcast)) at = at.arg(0);
    if (base_memory(at) != base) return "After of one buffer waits for a Store to another";
  }
  return "";
}

// ---- loops

std::string ranges_fault(Node n) {
  std::span<const Node> closed = closed_ranges(n);
  for (std::size_t i = 0; i < closed.size(); ++i) {
    if (!closed[i].is(Op::Range))
      return fmt::format("{} closes {}, which is not a range", name_of(n), name_of(closed[i]));
    if (std::find(closed.begin(), closed.begin() + static_cast<std::ptrdiff_t>(i), closed[i]) !=
        closed.begin() + static_cast<std::ptrdiff_t>(i))
      return fmt::format("{} closes range {} twice", name_of(n), range_id(closed[i]));
    RangeKind kind = range_kind(closed[i]);
    bool outputs = kind == RangeKind::Global || kind == RangeKind::Local || kind == RangeKind::Thread ||
                   kind == RangeKind::Device;
    if (!n.is(Op::End) && outputs)
      return fmt::format("{} closes range {}, which is {}: its iterations are independent", name_of(n),
                         range_id(closed[i]), name(kind));
  }
  return "";
}

std::string range_fault(Node n, Form form) {
  if (n.dtype() != n.arg(0).dtype())
    return fmt::format("a range of {} over an extent of {}", n.dtype().str(), n.arg(0).dtype().str());
  if (std::string f = index_fault(n, n.arg(0), form); !f.empty())
    return "the extent of a range is " + n.arg(0).dtype().str();
  if (form == Form::Kernel)
    for (Node r : ranges_of(n.arg(0)))
      if (range_id(r) >= range_id(n))
        return fmt::format("the extent of range {} depends on range {}, which is not outside it", range_id(n),
                           range_id(r));
  return "";
}

std::string reduce_fault(Node n, Form form) {
  bool tensor = form == Form::Tensor;
  if (tensor != (n.attr().kind == Attr::Kind::Data)) return "a Reduce of another form of the IR";
  if (n.dtype() != n.arg(0).dtype())
    return fmt::format("a Reduce of {} gives {}", n.arg(0).dtype().str(), n.dtype().str());
  if (!in_domain(reduce_op(n), n.dtype()))
    return fmt::format("{} is not defined on {}", info(reduce_op(n)).name, n.dtype().str());
  if (!tensor && n.arg_count() < 2) return "a Reduce over no range";
  return tensor ? "" : ranges_fault(n);
}

std::string fold_fault(Node n) {
  auto count = static_cast<std::size_t>(n.ints()[1]);
  for (std::size_t part = 1; part < (n.ints()[2] != 0 ? 3u : 2u); ++part)
    for (std::size_t c = 0; c < count; ++c)
      if (n.arg(part * count + c).dtype() != n.arg(c).dtype())
        return fmt::format("component {} of a Fold starts as {} and becomes {}", c, n.arg(c).dtype().str(),
                           n.arg(part * count + c).dtype().str());
  return ranges_fault(n);
}

std::string get_fault(Node n, Form form) {
  if (form == Form::Tensor) return n.arg(0).is(Op::Custom) ? "" : "Get of something that is not a Custom op";
  if (!n.arg(0).is(Op::Fold)) return fmt::format("Get of {}, which is not a Fold", name_of(n.arg(0)));
  if (n.int_attr() >= n.arg(0).ints()[1])
    return fmt::format("Get {} of a Fold of {} components", n.int_attr(), n.arg(0).ints()[1]);
  DType want = n.arg(0).arg(static_cast<std::size_t>(n.int_attr())).dtype();
  return n.dtype() == want ? "" : fmt::format("Get of a component of {} is {}", want.str(), n.dtype().str());
}

// A barrier may also name ranges: it then is inside their loops.
std::string effects_fault(Node n) {
  for (Node a : n.args())
    if (!is_effect(a) && !(n.is(Op::Barrier) && a.is(Op::Range)))
      return fmt::format("{} of {}, which is not an effect", name_of(n), name_of(a));
  return "";
}

std::string end_fault(Node n, Form form) {
  if (form == Form::Program)
    return n.arg_count() == 1 && n.arg(0).is(Op::Range) ? "" : "an End in a program closes one range";
  if (n.arg_count() < 2) return "an End that closes no range";
  if (!is_effect(n.arg(0))) return fmt::format("End of {}, which is not an effect", name_of(n.arg(0)));
  return ranges_fault(n);
}

// ---- vectors

std::string splat_fault(Node n) {
  return n.arg(0).dtype() == n.dtype().element() && n.dtype().lanes > 1
             ? ""
             : fmt::format("Splat of {} gives {}", n.arg(0).dtype().str(), n.dtype().str());
}

std::string vec_fault(Node n) {
  DType d = n.dtype();
  for (Node a : n.args())
    if (a.dtype() != d.element())
      return fmt::format("Vec of {} holds a lane of {}", d.str(), a.dtype().str());
  return n.arg_count() == d.lanes ? "" : fmt::format("Vec of {} from {} lanes", d.str(), n.arg_count());
}

std::string lane_fault(Node n) {
  DType from = n.arg(0).dtype();
  if (from.element() != n.dtype()) return fmt::format("Lane of {} gives {}", from.str(), n.dtype().str());
  return n.int_attr() < from.lanes ? "" : fmt::format("lane {} of {}", n.int_attr(), from.str());
}

std::string hreduce_fault(Node n) {
  DType from = n.arg(0).dtype();
  if (from.element() != n.dtype() || from.lanes < 2)
    return fmt::format("HReduce of {} gives {}", from.str(), n.dtype().str());
  return in_domain(reduce_op(n), n.dtype())
             ? ""
             : fmt::format("{} is not defined on {}", info(reduce_op(n)).name, n.dtype().str());
}

// ---- what one instruction of some machines does

std::string machine_fault(Node n, bool ok) {
  return ok ? "" : fmt::format("{} of {} gives {}", name_of(n), n.arg(0).dtype().str(), n.dtype().str());
}

bool is_float32(Node n, std::uint16_t lanes) { return n.dtype() == dtypes::Float32.vec(lanes); }

std::string narrow_fault(Node n) {
  const std::uint16_t lanes = n.arg(0).dtype().lanes;
  return machine_fault(n, is_float32(n.arg(0), lanes) && n.dtype() == dtypes::BFloat16.vec(lanes));
}

std::string table_fault(Node n) {
  const DType x = n.arg(0).dtype();
  return machine_fault(
      n, x.is_int() && n.dtype().lanes == x.lanes && (n.dtype().is_int() || is_float32(n, x.lanes)));
}

std::string floats_fault(Node n) {
  const std::uint16_t lanes = n.arg(0).dtype().lanes;
  const auto all = n.args();
  return machine_fault(n, is_float32(n, lanes) && std::all_of(all.begin(), all.end(),
                                                              [&](Node a) { return is_float32(a, lanes); }));
}

// ---- packed words

std::string pack_fault(Node n) {
  DType part = n.arg(0).dtype();
  for (Node a : n.args())
    if (a.dtype() != part) return fmt::format("Pack of {} and {}", part.str(), a.dtype().str());
  const int parts =
      n.arg_count() == 1 ? part.lanes / std::max<int>(n.dtype().lanes, 1) : static_cast<int>(n.arg_count());
  const bool even =
      n.arg_count() == 1 ? parts * n.dtype().lanes == part.lanes : part.lanes == n.dtype().lanes;
  return n.dtype().scalar == Scalar::UInt32 && even && parts * part.bits() == 32
             ? ""
             : fmt::format("Pack of {} times {} gives {}", n.arg_count(), part.str(), n.dtype().str());
}

std::string dot_fault(Node n) {
  const DotKind* kind = find_dot_kind(n.text());
  if (kind == nullptr) return fmt::format("Dot of kind '{}', which does not exist", n.text());
  const DotShape shape = dot_shape(n);
  auto lanes = [&](int fragment) {
    return static_cast<std::uint16_t>(shape.is_tile() ? fragment / shape.threads : n.dtype().lanes);
  };
  const DType sum = DType(kind->sum).vec(lanes(shape.m * shape.n)),
              x = dtypes::UInt32.vec(lanes(shape.m * shape.k)),
              y = dtypes::UInt32.vec(lanes(shape.k * shape.n));
  return n.dtype() == sum && n.arg(0).dtype() == x && n.arg(1).dtype() == y && n.arg(2).dtype() == sum
             ? ""
             : fmt::format("Dot {} of {}, {} and {} gives {}", n.text(), n.arg(0).dtype().str(),
                           n.arg(1).dtype().str(), n.arg(2).dtype().str(), n.dtype().str());
}

// ---- what the threads of a group do together

std::string panel_fault(Node n, Node memory, Node index, int bits = 16) {
  Node base = base_memory(memory);
  if (!base.is(Op::Define) || define_space(base) != Space::Shared || !shared_form(base).swizzled)
    return fmt::format("{} of something that is not a swizzled panel", name_of(n));
  if (base.dtype().bits() != bits || base.dtype().lanes != 1)
    return fmt::format("{} of a panel of {}", name_of(n), base.dtype().str());
  return index.dtype().lanes == 1 && index.dtype().is_int()
             ? ""
             : fmt::format("{} at {}", name_of(n), index.dtype().str());
}

std::string copy_async_fault(Node n) {
  Node to = base_memory(n.arg(0)), from = base_memory(n.arg(2));
  if (!to.is(Op::Define) || define_space(to) != Space::Shared)
    return "a CopyAsync to memory that is not shared";
  if (!from.is(Op::Param)) return "a CopyAsync of something that is not a param";
  if (to.dtype() != from.dtype())
    return fmt::format("CopyAsync of {} to {}", from.dtype().str(), to.dtype().str());
  const std::int64_t bytes = n.int_attr() * to.dtype().bytes();
  if (bytes != 4 && bytes != 8 && bytes != 16) return fmt::format("a CopyAsync of {} bytes", bytes);
  for (std::size_t i : {std::size_t{1}, std::size_t{3}})
    if (n.arg(i).dtype().lanes != 1 || !n.arg(i).dtype().is_int()) return "a CopyAsync of several places";
  for (std::size_t i = 4; i < n.arg_count(); ++i)
    if (n.arg(i).dtype() != dtypes::Bool) return "a CopyAsync under a gate of " + n.arg(i).dtype().str();
  return n.arg_count() <= 6 ? "" : "a CopyAsync of more than six operands";
}

// A barrier that threads and copies arrive at, from operand `at` on.
std::string arrivals_fault(Node n, std::size_t at) {
  Node base = base_memory(n.arg(at));
  if (!base.is(Op::Define) || define_space(base) != Space::Barrier || base.dtype() != dtypes::UInt64)
    return fmt::format("{} at something that is not a barrier", name_of(n));
  for (std::size_t i = at + 1; i < n.arg_count(); ++i)
    if (n.arg(i).dtype().lanes != 1 || !n.arg(i).dtype().is_int())
      return fmt::format("{} at a barrier numbered by {}", name_of(n), n.arg(i).dtype().str());
  return "";
}

std::string bulk_copy_fault(Node n) {
  Node to = base_memory(n.arg(0)), from = base_memory(n.arg(2));
  if (!to.is(Op::Define) || define_space(to) != Space::Shared)
    return "a BulkCopy to memory that is not shared";
  if (!from.is(Op::Param)) return "a BulkCopy of something that is not a param";
  if (to.dtype() != from.dtype())
    return fmt::format("BulkCopy of {} to {}", from.dtype().str(), to.dtype().str());
  const BulkBox box = bulk_box(n);
  if (box.all_columns > box.pitch || (box.all_rows - 1) * box.pitch + box.all_columns > memory_size(from))
    return fmt::format("a BulkCopy of {} rows of {} elements, {} apart, of {}", box.all_rows, box.all_columns,
                       box.pitch, memory_size(from));
  for (std::size_t i : {std::size_t{1}, std::size_t{3}, std::size_t{4}})
    if (n.arg(i).dtype().lanes != 1 || !n.arg(i).dtype().is_int()) return "a BulkCopy of several places";
  return arrivals_fault(n, 5);
}

std::string matrices_fault(Node n) {
  const std::int64_t count = n.ints()[0];
  if (count != 1 && count != 2 && count != 4) return fmt::format("{} Matrices at once", count);
  if (n.dtype() != dtypes::UInt32.vec(static_cast<std::uint16_t>(count)))
    return fmt::format("{} Matrices give {}", count, n.dtype().str());
  return panel_fault(n, n.arg(0), n.arg(1));
}

std::string panel_dot_fault(Node n) {
  const DotKind* kind = find_dot_kind(n.text());
  if (kind == nullptr) return fmt::format("PanelDot of kind '{}', which does not exist", n.text());
  const PanelShape shape = panel_shape(n);
  const DType sum = DType(kind->sum).vec(static_cast<std::uint16_t>(shape.m * shape.n / shape.threads));
  if (n.dtype() != sum || n.arg(4).dtype() != sum)
    return fmt::format("PanelDot {} adds to {} and gives {}", n.text(), n.arg(4).dtype().str(),
                       n.dtype().str());
  const int bits = 32 / kind->parts;
  if (holds_x(n)) {
    const DType words = dtypes::UInt32.vec(static_cast<std::uint16_t>(shape.m * shape.k / shape.threads));
    if (n.arg(0).dtype() != words || !n.arg(1).is_const_int(0))
      return fmt::format("PanelDot {} of words {}, not {}", n.text(), n.arg(0).dtype().str(), words.str());
    return panel_fault(n, n.arg(2), n.arg(3), bits);
  }
  if (bits != 16 && (shape.x.rows != PanelRows::Steps || shape.y.rows != PanelRows::Steps))
    return fmt::format("PanelDot {} of rows that are not steps", n.text());
  std::string x = panel_fault(n, n.arg(0), n.arg(1), bits);
  return x.empty() ? panel_fault(n, n.arg(2), n.arg(3), bits) : x;
}

std::string exchange_fault(Node n) {
  constexpr std::int64_t kWarp = 32;
  if (n.int_attr() < 1 || n.int_attr() >= kWarp)
    return fmt::format("Exchange between threads that differ in bits {}", n.int_attr());
  return n.dtype() == n.arg(0).dtype() && n.dtype().lanes == 1 ? "" : "Exchange of " + n.arg(0).dtype().str();
}

std::string form_fault(Node n, Form form) {
  char letter = form == Form::Tensor ? 'T' : form == Form::Program ? 'P' : 'K';
  std::string_view forms = info(n.op()).form;
  bool ok = forms.find(letter) != std::string_view::npos;
  if (form == Form::LoweredKernel && n.is(Op::Special)) ok = true;
  if (form == Form::Planned && n.is(Op::Buffer)) ok = true;
  constexpr const char* kNames[] = {"a tensor graph", "a kernel", "a kernel", "a kernel", "a program"};
  if (!ok) return fmt::format("{} is not allowed in {}", name_of(n), kNames[static_cast<int>(form)]);
  if (form == Form::Tensor && n.dtype().lanes != 1)
    return fmt::format("{} in a tensor graph", n.dtype().str());
  if (form == Form::Program && n.dtype().is_index()) return "the dtype Index in a program";
  return "";
}

std::string bind_fault(Node n) {
  Node variable = n.arg(0), value = n.arg(1);
  if (!variable.is(Op::Var) || !value.is_const()) return "Bind takes a variable and a constant";
  return value.lo() >= variable.lo() && value.hi() <= variable.hi()
             ? ""
             : fmt::format("{} is outside [{}, {}] of {}", value.lo(), variable.lo(), variable.hi(),
                           variable.text());
}

std::string sizes_fault(Node n) {
  for (Node size : n.args().subspan(1))
    if (size.dtype() != dtypes::Index)
      return fmt::format("{} takes a size of {}", name_of(n), size.dtype().str());
  return "";
}

// The column `dtype`, for the ops whose result it says.
std::string result_fault(Node n) {
  switch (info(n.op()).result) {
    case ResultKind::Same:
      return n.dtype() == n.arg(0).dtype()
                 ? ""
                 : fmt::format("{} of {} gives {}", name_of(n), n.arg(0).dtype().str(), n.dtype().str());
    case ResultKind::Void: return is_effect(n) ? "" : fmt::format("{} has the dtype void", name_of(n));
    default: return "";
  }
}

// ---- the column `check` of structure_ops.def

namespace checks {

template <std::string (*fault)(Node)>
std::string in_every_form(Node n, Form) {
  return fault(n);
}

std::string any(Node, Form) { return ""; }
std::string load(Node n, Form form) { return access_fault(n, n, 3, form); }
std::string effects(Node n, Form) { return effects_fault(n); }
std::string sink(Node n, Form form) { return form == Form::Tensor ? "" : effects_fault(n); }
std::string condition(Node n, Form) {
  return n.arg(0).dtype() == dtypes::Bool ? "" : "the condition of If is " + n.arg(0).dtype().str();
}
std::string end_if(Node n, Form) { return n.arg(0).is(Op::If) ? "" : "EndIf of " + name_of(n.arg(0)); }
std::string iota(Node n, Form) {
  return n.dtype().is_int() && n.dtype().lanes > 1 ? "" : fmt::format("Iota of {}", n.dtype().str());
}
std::string at_barrier(Node n, Form) { return arrivals_fault(n, 0); }
constexpr auto cast = cast_fault, bitcast = cast_fault, store = store_fault, after = after_fault,
               range = range_fault, reduce = reduce_fault, get = get_fault, end = end_fault,
               prefetch = prefetch_fault;
constexpr auto constant = in_every_form<const_fault>, check = in_every_form<check_fault>,
               bind = in_every_form<bind_fault>, sizes = in_every_form<sizes_fault>,
               fold = in_every_form<fold_fault>, splat = in_every_form<splat_fault>,
               lanes = in_every_form<vec_fault>, lane = in_every_form<lane_fault>,
               hreduce = in_every_form<hreduce_fault>, narrow = in_every_form<narrow_fault>,
               table = in_every_form<table_fault>, floats = in_every_form<floats_fault>,
               pack = in_every_form<pack_fault>, dot = in_every_form<dot_fault>,
               copy_async = in_every_form<copy_async_fault>, bulk_copy = in_every_form<bulk_copy_fault>,
               matrices = in_every_form<matrices_fault>, panel_dot = in_every_form<panel_dot_fault>,
               exchange = in_every_form<exchange_fault>;

}  // namespace checks

using Check = std::string (*)(Node, Form);
constexpr Check kChecks[] = {
#define LATHE_OP(...) scalar_op_fault,
#define LATHE_NODE(name, args, form, group, attribute, limits, operands, dtype, shape, bounds, check, ...) \
  checks::check,
#include "ir/ops.def"
#include "ir/structure_ops.def"
#undef LATHE_OP
#undef LATHE_NODE
};

}  // namespace

std::string local_fault(Node n, Form form) {
  if (std::string f = node_fault(n.op(), n.dtype(), n.args(), n.attr()); !f.empty()) return f;
  if (std::string f = form_fault(n, form); !f.empty()) return f;
  if (std::string f = kChecks[static_cast<std::size_t>(n.op())](n, form); !f.empty()) return f;
  return is_scalar_op(n.op()) ? "" : result_fault(n);
}

}  // namespace lathe
