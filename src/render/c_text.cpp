#include "render/c_text.h"

#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "render/c_printer.h"
#include "render/prepare.h"
#include "render/unit_text.h"
#include "target/matrix_units.h"

namespace lathe::render {
namespace {

constexpr Spelling kCpuSpecials[] = {{"t", "part"}};

// Threads of a group, where all three sizes are constants.
std::int64_t block_size(const Program& program) {
  std::int64_t threads = 1;
  for (const NodeRef& local : program.locals) {
    if (!local) continue;
    if (!local->is_const()) return 1024;
    threads *= local->const_int();
  }
  return threads;
}

bool has_roles(const Program& program) {
  return std::any_of(program.code.begin(), program.code.end(), [&](const NodeRef& node) {
    return node->is(Op::If) && role_of(node->arg(0), program).has_value();
  });
}

bool writes(const Program& program, std::int64_t slot) {
  return std::any_of(program.code.begin(), program.code.end(), [&](const NodeRef& node) {
    if (!node->is(Op::Store)) return false;
    Node base = base_memory(node->arg(0));
    return base.is(Op::Param) && param_slot(base) == slot;
  });
}

}  // namespace

const CDialect& gnu_c() {
  static const CDialect dialect = [] {
    CDialect d;
    d.specials = kCpuSpecials;
    return d;
  }();
  return dialect;
}

std::string CPrinter::signature() {
  // Registers can be moved between warps where the compiler knows that a group is alone on its core.
  std::string kernel =
      fill(dialect_.kernel,
           {{"block", fmt::format("{}{}", block_size(program_), has_roles(program_) ? ", 1" : "")}});
  if (dialect_.packed_arguments)
    return fmt::format("{} {}(void** buffers, const {}* variables, {} part, char* scratch)", kernel,
                       program_.name, unit_.type(dtypes::Int64), unit_.type(dtypes::Int64));
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < program_.params.size(); ++i) {
    const ProgramParam& p = program_.params[i];
    std::string_view form = writes(program_, p.slot) ? dialect_.buffer : dialect_.const_buffer;
    arguments.push_back(fill(form, {{"T", unit_.memory_type(p.dtype)}, {"name", fmt::format("p{}", i)}}));
  }
  for (std::size_t i = 0; i < program_.variables.size(); ++i)
    arguments.push_back(fmt::format("const {} n{}", unit_.type(dtypes::Int64), i));
  find_box_maps();
  for (std::size_t i = 0; i < boxes_.size(); ++i)
    arguments.push_back(fmt::format("const __grid_constant__ lathe_map t{}", i));
  return fmt::format("{} {}({})", kernel, program_.name, fmt::join(arguments, ", "));
}

void CPrinter::entry() {
  if (dialect_.packed_arguments) {
    for (std::size_t i = 0; i < program_.params.size(); ++i) {
      const ProgramParam& p = program_.params[i];
      line("{}{}* p{} = buffers[{}];", writes(program_, p.slot) ? "" : "const ", unit_.memory_type(p.dtype),
           i, i);
    }
    for (std::size_t i = 0; i < program_.variables.size(); ++i)
      line("const {} n{} = variables[{}];", unit_.type(dtypes::Int64), i, i);
  }
  declare_locals();
}

std::string CPrinter::value(Node node) {
  if (const std::string* found = names_.find(node)) return *found;
  if (Node c = constant_of(node)) return repeat(node.dtype(), constant(node.dtype().element(), c));
  switch (node.op()) {
    case Op::Param:
      for (std::size_t i = 0; i < program_.params.size(); ++i)
        if (program_.params[i].slot == param_slot(node)) return fmt::format("p{}", i);
      break;
    case Op::Var:
      for (std::size_t i = 0; i < program_.variables.size(); ++i)
        if (program_.variables[i]->text() == node.text())
          return node.dtype().bits() == 64 ? fmt::format("n{}", i)
                                           : fmt::format("(({})n{})", unit_.type(node.dtype()), i);
      break;
    default: break;
  }
  throw InternalError("c_text", fmt::format("{} is used before it is listed", info(node.op()).name));
}

std::string CPrinter::lane_value(Node node, int i) {
  if (node.dtype().lanes == 1) return value(node);
  if (node.is(Op::Splat)) return value(node.arg(0));
  std::string lane = unit_.lane(value(node), i);
  return dialect_.vectors && node.dtype().is_bool() ? fmt::format("({} != 0)", lane) : lane;
}

void CPrinter::define_value(Node node, const std::string& text) {
  std::string name = fmt::format("v{}", next_++);
  line("const {} {} = {};", unit_.type(node.dtype()), name, text);
  names_[node] = name;
}

void CPrinter::launch_index(Node node) {
  for (const Spelling& row : dialect_.specials)
    if (row.name == node.text()) {
      // Indices of threads with roles are there with several limits.
      if (known_indices_.insert(row.name).second)
        line("const {0} {1} = ({0}){2};", unit_.type(node.dtype()), row.name, row.text);
      names_[node] = node.text();
      return;
    }
  throw InternalError("c_text", fmt::format("{} has no launch index {}", dialect_.name, node.text()));
}

void CPrinter::instruction(Node node) {
  switch (node.op()) {
    case Op::Const:
    case Op::Param:
    case Op::Var:
    case Op::Define:
    case Op::After:
    case Op::Sink: return;
    case Op::Special: return launch_index(node);
    case Op::Barrier:
      if (!dialect_.barrier.empty()) line("{}", dialect_.barrier);
      return;
    case Op::Range: {
      std::string name = fmt::format("r{}", range_id(node));
      names_[node] = name;
      if (few_registers_) line("#pragma unroll 1");
      line("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", unit_.type(node.dtype()), name, value(node.arg(0)));
      ++depth_, ++loops_;
      return;
    }
    case Op::If:
      line("if ({}) {{", value(node.arg(0)));
      ++depth_;
      if (const std::optional<Role> role = role_of(node.arg(0), program_)) divide_registers(*role);
      return;
    case Op::End: --loops_; [[fallthrough]];
    case Op::EndIf:
      --depth_;
      line("}}");
      return;
    case Op::Load: return define_value(node, load_value(node));
    case Op::Store: return store_value(node);
    case Op::Prefetch:
      return line("__builtin_prefetch({}, {}, {});", pointer(node.arg(0), node.arg(1)),
                  node.int_attr() == 3 ? 1 : 0, node.int_attr() == 2 ? 2 : 3);
    case Op::Cast:
    case Op::Bitcast: return define_value(node, cast_value(node));
    case Op::Splat:
    case Op::Vec:
    case Op::Lane:
    case Op::Iota:
    case Op::HReduce: return define_value(node, vector_op(node));
    case Op::Pack:
      return define_value(node, fmt::format("(({}){})", unit_.type(node.dtype()), value(node.arg(0))));
    case Op::Dot: return dot_product(node);
    case Op::Narrow:
    case Op::Table:
    case Op::Fraction:
    case Op::Scale: return define_value(node, machine_op(node));
    default: break;
  }
  if (group_instruction(node)) return;
  if (!is_scalar_op(node.op()))
    throw InternalError("c_text", fmt::format("{} is not allowed in a program", info(node.op()).name));
  define_value(node, scalar_op(node));
}

// The instruction itself: it means the same whatever the compiler calls its intrinsics.
void CPrinter::dot_product(Node node) {
  if (dot_shape(node).threads > 1) return group_product(node);
  const MatrixUnit* unit = unit_for_dot(dialect_.units, node.text());
  if (unit == nullptr)
    throw InternalError("c_text", fmt::format("{} has no unit for {}", dialect_.name, node.text()));
  const UnitText& text = text_of(*unit);
  std::string name = fmt::format("v{}", next_++);
  line("{} {} = {};", unit_.type(node.dtype()), name, value(node.arg(2)));
  std::string scratch, ones;
  if (unit->sum != UnitSum::Done) {
    line("{} {}_t;", unit_.type(node.dtype()), name);
    scratch = fmt::format(", [t] \"=&{}\"({}_t)", text.registers, name);
  }
  if (unit->sum == UnitSum::AddPairs)
    ones = fmt::format(", [ones] \"{}\"(({}){{}} + 0x10001)", text.registers, unit_.type(node.dtype()));
  line("__asm__(\"{}\" : [sum] \"+{}\"({}){} : [x] \"{}\"({}), [y] \"{}\"({}){});", text.assembly,
       text.registers, name, scratch, text.registers, value(node.arg(0)), text.registers, value(node.arg(1)),
       ones);
  names_[node] = name;
}

// A product of which every thread of a warp has its share: one word each in the registers of the instruction.
void CPrinter::group_product(Node node) {
  const MatrixUnit* unit = unit_for_dot(dialect_.units, node.text(), true);
  if (unit == nullptr)
    throw InternalError("c_text", fmt::format("{} has no unit for {}", dialect_.name, node.text()));
  const std::string name = fmt::format("lathe_{}", unit->name), sum = unit_.type(node.dtype()),
                    x = unit_.type(node.arg(0).dtype()), y = unit_.type(node.arg(1).dtype());
  unit_.function(name, [&] {
    int next = 0;
    auto places = [&](int lanes) {
      std::string text = "{";
      for (int i = 0; i < lanes; ++i) text += fmt::format("{}%{}", i > 0 ? ", " : "", next++);
      return text + "}";
    };
    auto values = [&](const char* constraint, const char* vector, int lanes) {
      std::string text;
      for (int i = 0; i < lanes; ++i)
        text += fmt::format("{}\"{}\"({})", i > 0 ? ", " : "", constraint, unit_.lane(vector, i));
      return text;
    };
    const int sums = node.dtype().lanes, xs = node.arg(0).dtype().lanes, ys = node.arg(1).dtype().lanes;
    const bool real = node.dtype().is_float();
    const std::string to = places(sums), a = places(xs), b = places(ys), c = places(sums);
    return fmt::format(
        "{} {} {}({} x, {} y, {} c) {{\n  {} r;\n  asm(\"{} {}, {}, {}, {};\" : {} : {}, {}, {});\n"
        "  return r;\n}}",
        dialect_.helper, sum, name, x, y, sum, sum, text_of(*unit).assembly, to, a, b, c,
        values(real ? "=f" : "=r", "r", sums), values("r", "x", xs), values("r", "y", ys),
        values(real ? "f" : "r", "c", sums));
  });
  define_value(
      node, fmt::format("{}({}, {}, {})", name, value(node.arg(0)), value(node.arg(1)), value(node.arg(2))));
}

std::string CPrinter::print() {
  std::string head = signature();
  entry();
  for (const NodeRef& node : program_.code) instruction(node);
  return head + " {\n" + body_ + "}\n";
}

std::string c_text(std::span<const Program> programs, const CDialect& dialect) {
  Scope scope;
  CUnit unit(dialect);
  std::string kernels;
  for (const Program& program : programs) {
    Program lowered = lower_small_floats(program, {dialect.native_half, dialect.native_bfloat16});
    if (!kernels.empty()) kernels += "\n";
    kernels += CPrinter(unit, lowered).print();
  }
  return unit.head() + kernels;
}

std::string c_text(const Program& program, const CDialect& dialect) { return c_text({&program, 1}, dialect); }

}  // namespace lathe::render
