// What the threads of a group do together, as CUDA's PTX: asynchronous copies, matrices that a warp reads,
// and products of panels in shared memory (ir/group_ops.h).
#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/group_ops.h"
#include "ir/shared_memory.h"
#include "render/box_maps.h"
#include "render/c_printer.h"
#include "render/unit_text.h"
#include "target/matrix_units.h"

namespace lathe::render {
namespace {

// "%3, %4, %5" and "\"+f\"(c.v[0]), ...", the registers of a vector in inline assembly.
std::string places(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}", i > 0 ? ", " : "", first + i);
  return text;
}
std::string registers(const CUnit& unit, std::string_view constraint, const std::string& vector, int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("{}\"{}\"({})", i > 0 ? ", " : "", constraint, unit.lane(vector, i));
  return text;
}

bool same_boxes(Node a, Node b) {
  return base_memory(a.arg(2)) == base_memory(b.arg(2)) && std::ranges::equal(a.ints(), b.ints());
}

}  // namespace

// An index into swizzled memory as it lies there. Whole groups of rows change nothing about the exchange of
// pieces, so that what is added for them stays outside.
std::string CPrinter::placed(Node memory, Node index) {
  Node base = base_memory(memory);
  if (!base.is(Op::Define) || !shared_form(base).swizzled) return value(index);
  const std::int64_t rows = kSwizzleRow * kSwizzleRows / base.dtype().bytes();
  if (index.is(Op::Add) && index.arg(1).is_const() && index.arg(1).int_attr() % rows == 0)
    return fmt::format("{} + {}", placed(memory, value(index.arg(0)), index.dtype()), value(index.arg(1)));
  return placed(memory, value(index), index.dtype());
}
std::string CPrinter::placed(Node memory, const std::string& index, DType dtype) {
  Node base = base_memory(memory);
  if (!base.is(Op::Define) || !shared_form(base).swizzled) return index;
  const std::int64_t bytes = base.dtype().bytes();
  const std::string name = fmt::format("lathe_swizzled_{}", bytes * 8), type = unit_.type(dtype.element());
  unit_.function(name + type, [&] {
    return fmt::format("{0} {1} {2}({1} i) {{ return i ^ (i / {3} % {4} * {5}); }}", dialect_.helper, type,
                       name, kSwizzleRow / bytes, kSwizzleRows, kSwizzlePiece / bytes);
  });
  return fmt::format("{}({})", name, index);
}

void CPrinter::copy_async(Node node) {
  const std::int64_t bytes = node.int_attr() * base_memory(node.arg(0)).dtype().bytes();
  const bool always = node.arg(4).is_const_int(1);
  const std::string name = fmt::format("lathe_copy_{}{}", bytes, always ? "" : "_if");
  unit_.function(name, [&] {
    return fmt::format(
        "{} void {}(void* to, const void* from{}) {{\n"
        "  asm volatile(\"cp.async.{}.shared.global [%0], [%1], {}{};\" :: "
        "\"r\"((unsigned int)__cvta_generic_to_shared(to)), \"l\"(from){} : \"memory\");\n}}",
        dialect_.helper, name, always ? "" : ", bool inside", bytes == 16 ? "cg" : "ca", bytes,
        always ? "" : ", %2", always ? "" : fmt::format(", \"r\"(inside ? {} : 0)", bytes));
  });
  const std::string when = node.arg_count() > 5 ? fmt::format("if ({}) ", value(node.arg(5))) : "";
  line("{}{}({} + {}, {}{});", when, name, value(base_memory(node.arg(0))), placed(node.arg(0), node.arg(1)),
       pointer(node.arg(2), node.arg(3)), always ? "" : ", " + value(node.arg(4)));
}

void CPrinter::matrices(Node node) {
  const int count = static_cast<int>(node.ints()[0]);
  const bool transposed = node.ints()[1] != 0;
  const std::string name = fmt::format("lathe_matrices_{}{}", count, transposed ? "_transposed" : ""),
                    type = unit_.type(node.dtype());
  unit_.function(name, [&] {
    const std::string to = count > 1 ? registers(unit_, "=r", "r", count) : "\"=r\"(r)";
    return fmt::format(
        "{} {} {}(const void* row) {{\n  {} r;\n"
        "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [%{}];\" : {} : "
        "\"r\"((unsigned int)__cvta_generic_to_shared(row)) : \"memory\");\n  return r;\n}}",
        dialect_.helper, type, name, type, count, transposed ? ".trans" : "", places(0, count), count, to);
  });
  define_value(node, fmt::format("{}({} + {})", name, value(base_memory(node.arg(0))),
                                 placed(node.arg(0), node.arg(1))));
}

// The instructions of one product: as many as its steps, each a fixed distance further on in both panels.
void CPrinter::panel_product(Node node) {
  const PanelShape shape = panel_shape(node);
  const MatrixUnit* unit = nullptr;
  for (const std::string& candidate : dialect_.units)
    if (const MatrixUnit* u = find_matrix_unit(candidate);
        u->reads == UnitReads::Panels && u->dot == node.text() && u->m == shape.m && u->n == shape.n)
      unit = u;
  if (unit == nullptr)
    throw InternalError("c_text", fmt::format("{} has no unit for {}", dialect_.name, node.text()));
  unit_.function("lathe_panel", [&] {
    return fmt::format(
        "{} unsigned long long lathe_panel(const void* p, unsigned int slab) {{\n"
        "  const unsigned long long at = (unsigned int)__cvta_generic_to_shared(p) & 0x3ffff;\n"
        "  return at >> 4 | (unsigned long long)(slab >> 4) << 16 | {}ull << 32 | 1ull << 62;\n}}",
        dialect_.helper, kSwizzleRow * kSwizzleRows >> 4);
  });
  // Rows of outputs have numbers of 16 bits.
  auto slab = [](const PanelOperand& o) { return o.rows == PanelRows::Steps ? 16 : o.slab * 2; };
  // In sixteens of bytes, to the next instruction's steps.
  auto next = [&](const PanelOperand& o) {
    return (o.rows == PanelRows::Steps ? unit->step * 4 : unit->step * 2 * kSwizzleRow) >> 4;
  };
  const int sums = node.dtype().lanes;
  // A sum from nothing is not read: the first instruction sets it.
  const bool sets = node.arg(4).is(Op::Splat) && is_zero(node.arg(4).arg(0));
  const bool held = holds_x(node), turned_x = !held && shape.x.rows == PanelRows::Outputs,
             turned_y = shape.y.rows == PanelRows::Outputs;
  const char* x_form = held ? "r" : turned_x ? "t" : "n";
  const std::string name = fmt::format("lathe_{}_{}{}{}", unit->name, x_form, turned_y ? "t" : "n",
                                       sets ? "_first" : ""),
                    type = unit_.type(node.dtype()),
                    x_type = held ? unit_.type(node.arg(0).dtype()) : "unsigned long long";
  const int x_places = held ? 4 : 1;  // operands that are x's
  unit_.function(name, [&] {
    const UnitText& spelling = text_of(*unit);
    // What is in registers has no order.
    std::string form(spelling.last);
    if (const std::size_t order = form.find("$x, "); held && order != std::string::npos) form.erase(order, 4);
    const std::string instruction = fmt::format(fmt::runtime(spelling.assembly), unit->n),
                      last = fill(form, {{"x", turned_x ? "1" : "0"}, {"y", turned_y ? "1" : "0"}}),
                      read = registers(unit_, node.dtype().is_float() ? "+f" : "+r", "c", sums);
    std::string text = fmt::format(
        "{0} {1} {2}({3} x, unsigned long long y{4}) {{\n{5}"
        "  asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n",
        dialect_.helper, type, name, x_type, sets ? "" : ", " + type + " c",
        sets ? "  " + type + " c;\n" : "");
    for (int i = 0; i < unit->k / unit->step; ++i) {
      std::string x = fmt::format("\"l\"(x + {})", i * next(shape.x));
      for (int r = 0; held && r < x_places; ++r)
        x = (r > 0 ? x + ", " : "") + fmt::format("\"r\"({})", unit_.lane("x", i * x_places + r));
      text += fmt::format(
          "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{0}, 0;\\n{1} {{{2}}}, {3}, %{4}, "
          "p{5};\\n}}\" "
          ": {6} : {7}, \"l\"(y + {8}), \"r\"({9}));\n",
          sums + x_places + 1, instruction, places(0, sums),
          held ? "{" + places(sums, x_places) + "}" : places(sums, 1), sums + x_places, last, read, x,
          i * next(shape.y), sets && i == 0 ? 0 : 1);
    }
    return text + "  asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n  return c;\n}";
  });
  const std::string x =
      held ? value(node.arg(0))
           : fmt::format("lathe_panel({}, {})", pointer(node.arg(0), node.arg(1)), slab(shape.x));
  define_value(node, fmt::format("{}({}, lathe_panel({}, {}){})", name, x, pointer(node.arg(2), node.arg(3)),
                                 slab(shape.y), sets ? "" : ", " + value(node.arg(4))));
}

// A result that is there goes through a statement after the wait, so that nothing that uses it comes before;
// one that is not is left where it is. Where what follows is no loop's next product, the assembler moves uses
// under conditions up past the wait all the same, to where the unit still writes: so they are made to depend
// on what only the time after the wait knows, the highest bit of the clock, which is 0.
void CPrinter::wait_products(Node node) {
  if (is_in_flight(node)) {
    line("asm volatile(\"wgmma.wait_group.sync.aligned {};\" ::: \"memory\");", node.int_attr());
    names_[node] = value(node.arg(0));
    return;
  }
  const bool in_loop = loops_ > 0 && node.arg(0).is(Op::PanelDot);
  const int lanes = node.dtype().lanes;
  const std::string type = unit_.type(node.dtype()),
                    name = (in_loop ? "lathe_wait_step_" : "lathe_wait_") + node.dtype().str();
  unit_.function(name, [&] {
    std::string text = fmt::format(
        "{0} {1} {2}({1} c) {{\n  asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");\n",
        dialect_.helper, type, name);
    if (in_loop)
      return text + fmt::format("  asm volatile(\"\" : {} :: \"memory\");\n  return c;\n}}",
                                registers(unit_, node.dtype().is_float() ? "+f" : "+r", "c", lanes));
    return text + fmt::format(
                      "  unsigned int none;\n  asm volatile(\"mov.u32 %0, %%clock_hi;\" : \"=r\"(none) :: "
                      "\"memory\");\n  none >>= 31;\n#pragma unroll\n  for (int i = 0; i < {}; ++i) c.v[i] = "
                      "{};\n  return c;\n}}",
                      lanes,
                      node.dtype().is_float() ? "__uint_as_float(__float_as_uint(c.v[i]) | none)"
                                              : "c.v[i] | (int)none");
  });
  define_value(node, fmt::format("{}({})", name, value(node.arg(0))));
}

// Copies of equal boxes of one matrix share a description.
void CPrinter::find_box_maps() {
  std::string rows;
  for (const NodeRef& copy : program_.code) {
    if (!copy->is(Op::BulkCopy)) continue;
    const BulkBox box = bulk_box(copy);
    Node source = base_memory(copy->arg(2));
    if (std::any_of(boxes_.begin(), boxes_.end(), [&](Node other) { return same_boxes(other, copy); }))
      continue;
    boxes_.push_back(copy);
    std::size_t argument = 0;
    while (program_.params[argument].slot != param_slot(source)) ++argument;
    rows += fmt::format(", {}, {}, {}, {}, {}, {}, {}", argument, source.dtype().bytes(), box.all_columns,
                        box.all_rows, box.pitch, box.columns, box.rows);
  }
  if (boxes_.empty()) return;
  unit_.function("lathe_map", [] {
    return fmt::format("struct __align__(64) lathe_map {{ unsigned char bytes[{}]; }};", kBoxMapBytes);
  });
  const std::string table = program_.name + std::string(kBoxMaps);
  unit_.function(table, [&] {
    return fmt::format("extern \"C\" __device__ long long {}[] = {{{}{}}};", table, boxes_.size(), rows);
  });
}

void CPrinter::bulk_copy(Node node) {
  std::size_t map = 0;
  while (!same_boxes(boxes_[map], node)) ++map;
  unit_.function("lathe_bulk_copy", [&] {
    return fmt::format(
        "{} void lathe_bulk_copy(void* to, const lathe_map& map, int column, int row, void* barrier) {{\n"
        "  asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
        "[%1, {{%2, %3}}], [%4];\" :: \"r\"((unsigned int)__cvta_generic_to_shared(to)), \"l\"(&map), "
        "\"r\"(column), \"r\"(row), \"r\"((unsigned int)__cvta_generic_to_shared(barrier)) : "
        "\"memory\");\n}}",
        dialect_.helper);
  });
  // A box begins with a whole group of rows, so that nothing is exchanged there.
  line("lathe_bulk_copy({} + {}, t{}, {}, {}, {} + {});", value(base_memory(node.arg(0))), value(node.arg(1)),
       map, value(node.arg(3)), value(node.arg(4)), value(base_memory(node.arg(5))), value(node.arg(6)));
}

// Warps that only start copies leave most of their registers to the others, where three times four share
// what a core has.
void CPrinter::divide_registers(const Role& role) {
  few_registers_ = role.produces;
  if (role.consumers != 2 * kProducers) return;
  line("asm volatile(\"setmaxnreg.{}.sync.aligned.u32 {};\");", role.produces ? "dec" : "inc",
       role.produces ? 40 : 232);
}

// Barriers that copies arrive at.
void CPrinter::arrivals(Node node) {
  const bool begins = node.is(Op::BeginArrivals), waits = node.is(Op::AwaitArrivals),
             nothing = node.is(Op::ArriveBytes) && node.int_attr() == 0;
  const std::string name = begins    ? "lathe_begin_arrivals"
                           : waits   ? "lathe_await"
                           : nothing ? "lathe_arrive"
                                     : "lathe_arrive_bytes";
  unit_.function(name, [&] {
    const char* text =
        begins    ? "mbarrier.init.shared::cta.b64 [%0], %1;"
        : waits   ? "{\\n.reg .pred p;\\nlathe_again:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], "
                    "%1;\\n@p bra lathe_done;\\nbra lathe_again;\\nlathe_done:\\n}"
        : nothing ? "mbarrier.arrive.shared::cta.b64 _, [%0];"
                  : "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;";
    return fmt::format(
        "{} void {}(void* barrier, unsigned int n) {{\n  asm volatile(\"{}\" :: "
        "\"r\"((unsigned int)__cvta_generic_to_shared(barrier)), \"r\"(n) : \"memory\");\n}}",
        dialect_.helper, name, text);
  });
  line("{}({} + {}, {});", name, value(base_memory(node.arg(0))), value(node.arg(1)),
       waits ? value(node.arg(2)) : fmt::format("{}", node.int_attr()));
}

bool CPrinter::group_instruction(Node node) {
  switch (node.op()) {
    case Op::BulkCopy: bulk_copy(node); return true;
    case Op::BeginArrivals:
    case Op::ArriveBytes:
    case Op::AwaitArrivals: arrivals(node); return true;
    case Op::CopyAsync: copy_async(node); return true;
    case Op::CommitCopies: line("asm volatile(\"cp.async.commit_group;\" ::: \"memory\");"); return true;
    case Op::WaitCopies:
      line("asm volatile(\"cp.async.wait_group {};\" ::: \"memory\");", node.ints()[0]);
      return true;
    case Op::ProxyFence:
      line("asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
      return true;
    case Op::Matrices: matrices(node); return true;
    case Op::PanelDot: panel_product(node); return true;
    case Op::Exchange:
      define_value(node,
                   fmt::format("__shfl_xor_sync(0xffffffffu, {}, {})", value(node.arg(0)), node.int_attr()));
      return true;
    case Op::WaitProducts: wait_products(node); return true;
    default: return false;
  }
}

}  // namespace lathe::render
