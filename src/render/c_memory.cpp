#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "ir/shared_memory.h"
#include "render/c_printer.h"
#include "render/prepare.h"
#include "rules/linear.h"

namespace lathe::render {

std::string CPrinter::zero(DType dtype) {
  if (dtype.lanes == 1) return "0";
  return repeat(dtype, "0");
}

void CPrinter::declare_locals() {
  std::int64_t shared_offset = 0;
  std::vector<LocalMemory> memories = layout_locals(program_, dialect_.stack_bytes).memories;
  auto swizzled = [](const LocalMemory& m) { return shared_form(m.define).swizzled; };
  const bool any_swizzled = std::any_of(memories.begin(), memories.end(), swizzled);
  std::stable_partition(memories.begin(), memories.end(), swizzled);
  for (const LocalMemory& memory : memories) {
    Node define = memory.define;
    std::string name = fmt::format("m{}", define_id(define)), type = unit_.memory_type(define.dtype());
    names_[define] = name;
    bool shared = is_group_memory(define) && !dialect_.shared.empty();
    if (shared) {
      const std::int64_t aligned = any_swizzled ? kSwizzleRow * kSwizzleRows : kSwizzlePiece;
      if (shared_offset == 0) line("{}", fill(dialect_.shared, {{"align", fmt::format("{}", aligned)}}));
      line("{0}* {1} = ({0}*)(lathe_shared + {2});", type, name, shared_offset);
      shared_offset += shared_bytes_of(define);
    } else if (memory.scratch_offset >= 0) {
      line("{0}* {1} = ({0}*)(scratch + {2});", type, name, memory.scratch_offset);
    } else {
      line("{} {}[{}];", type, name, memory_size(define));
    }
  }
}

std::string CPrinter::pointer(Node memory, Node index) {
  std::string base = value(base_memory(memory));
  return index.is_const_int(0) ? base : fmt::format("({} + {})", base, placed(memory, index));
}

std::string CPrinter::element_at(Node memory, const std::string& index) {
  Node base = base_memory(memory);
  return fmt::format("{}[{}]", value(base), index);
}

// Whether a struct of so many lanes may be read or written there in one piece: buffers and shared memory
// begin at a multiple of any vector, a thread's own arrays need not.
bool CPrinter::aligned(Node memory, Node index, int lanes) {
  Node base = base_memory(memory);
  bool own = base.is(Op::Define) && !is_group_memory(base);
  return !own && (lanes & (lanes - 1)) == 0 && is_multiple(index, lanes);
}

std::string CPrinter::load_value(Node node) {
  check_contiguous(node);
  Node memory = node.arg(0), index = node.arg(1), gate = node.arg_count() > 2 ? node.arg(2) : Node();
  DType dtype = node.dtype();
  if (gate && gate.is_const_int(1)) gate = Node();
  bool whole = base_memory(memory).dtype().lanes == dtype.lanes && index.dtype().lanes == 1;
  if (!whole) return vector_load(node);
  std::string element = element_at(memory, placed(memory, index));
  if (dtype.is_bool() && dtype.lanes == 1) element = fmt::format("({} != 0)", element);
  return gate ? fmt::format("({} ? {} : {})", value(gate), element, zero(dtype)) : element;
}

// Several elements of scalar memory: consecutive ones, or those a vector index names.
std::string CPrinter::vector_load(Node node) {
  Node memory = node.arg(0), index = node.arg(1), gate = node.arg_count() > 2 ? node.arg(2) : Node();
  if (gate && gate.is_const_int(1)) gate = Node();
  DType dtype = node.dtype(), element = dtype.element();
  bool gather = index.dtype().lanes > 1, by_lane = gate && gate.dtype().lanes > 1;
  std::string type = unit_.type(dtype), memory_type = unit_.memory_type(element),
              read = element.is_bool() ? " != 0" : "";
  if (!dialect_.vectors) {
    if (!gather && !by_lane && aligned(memory, index, dtype.lanes)) {
      const std::string all = fmt::format("*(const {}*){}", type, pointer(memory, index));
      return gate ? fmt::format("({} ? {} : {}{})", value(gate), all, type, zero(dtype)) : all;
    }
    std::vector<std::string> lanes;
    for (int i = 0; i < dtype.lanes; ++i) {
      std::string at = gather ? lane_value(index, i) : fmt::format("{} + {}", value(index), i);
      std::string x = fmt::format("{}{}", element_at(memory, placed(memory, at, index.dtype())), read);
      lanes.push_back(gate ? fmt::format("({} ? {} : 0)", lane_value(gate, i), x) : x);
    }
    return vector_literal(dtype, lanes);
  }
  std::string name =
      fmt::format("lathe_{}{}_{}", gather ? "gather" : "load", by_lane ? "_if" : "", dtype.str());
  std::string index_type = gather ? unit_.type(index.dtype()) : "",
              parameters = fmt::format("const {}* p", memory_type);
  if (gather) {
    name += "_" + index.dtype().element().str();
    parameters += fmt::format(", {} at", index_type);
  }
  if (by_lane) parameters += fmt::format(", {} gate", unit_.type(gate.dtype()));
  unit_.function(name, [&] {
    std::string text =
        fmt::format("{} {} {}({}) {{\n  {} r = {{0}};\n", dialect_.helper, type, name, parameters, type);
    if (!gather && !by_lane) {
      text += fmt::format("  __builtin_memcpy(&r, p, {});\n", dtype.bytes() * dtype.lanes);
      return text + (element.is_bool() ? "  return r != 0;\n}" : "  return r;\n}");
    }
    std::string one = fmt::format("p[{}]{}", gather ? "at[i]" : "i", read);
    if (element.is_bool()) one = "-(" + one + ")";
    text += fmt::format("  for (int i = 0; i < {}; ++i)\n    {}r[i] = {};\n  return r;\n}}", dtype.lanes,
                        by_lane ? "if (gate[i]) " : "", one);
    return text;
  });
  std::string arguments =
      gather ? fmt::format("{}, {}", value(base_memory(memory)), value(index)) : pointer(memory, index);
  if (by_lane) arguments += ", " + value(gate);
  std::string call = fmt::format("{}({})", name, arguments);
  return gate && !by_lane ? fmt::format("({} ? {} : {})", value(gate), call, zero(dtype)) : call;
}

void CPrinter::store_value(Node node) {
  check_contiguous(node);
  Node memory = node.arg(0), index = node.arg(1), stored = node.arg(2);
  Node gate = node.arg_count() > 3 ? node.arg(3) : Node();
  if (gate && gate.is_const_int(1)) gate = Node();
  bool whole = base_memory(memory).dtype().lanes == stored.dtype().lanes && index.dtype().lanes == 1;
  if (!whole) return vector_store(node);
  std::string condition = gate ? fmt::format("if ({}) ", value(gate)) : "";
  line("{}{} = {};", condition, element_at(memory, placed(memory, index)), value(stored));
}

void CPrinter::vector_store(Node node) {
  Node memory = node.arg(0), index = node.arg(1), stored = node.arg(2);
  Node gate = node.arg_count() > 3 ? node.arg(3) : Node();
  if (gate && gate.is_const_int(1)) gate = Node();
  DType dtype = stored.dtype(), element = dtype.element();
  bool scatter = index.dtype().lanes > 1, by_lane = gate && gate.dtype().lanes > 1;
  std::string type = unit_.type(dtype), memory_type = unit_.memory_type(element);
  std::string condition = gate && !by_lane ? fmt::format("if ({}) ", value(gate)) : "";
  if (!dialect_.vectors) {
    if (!scatter && !by_lane && aligned(memory, index, dtype.lanes)) {
      line("{}*({}*){} = {};", condition, type, pointer(memory, index), value(stored));
      return;
    }
    for (int i = 0; i < dtype.lanes; ++i) {
      std::string at = scatter ? lane_value(index, i) : fmt::format("{} + {}", value(index), i);
      std::string when = gate ? fmt::format("if ({}) ", lane_value(gate, i)) : "";
      line("{}{} = {};", when, element_at(memory, placed(memory, at, index.dtype())), lane_value(stored, i));
    }
    return;
  }
  std::string name =
      fmt::format("lathe_{}{}_{}", scatter ? "scatter" : "store", by_lane ? "_if" : "", dtype.str());
  std::string parameters = fmt::format("{}* p, {} x", memory_type, type);
  if (scatter) {
    name += "_" + index.dtype().element().str();
    parameters += fmt::format(", {} at", unit_.type(index.dtype()));
  }
  if (by_lane) parameters += fmt::format(", {} gate", unit_.type(gate.dtype()));
  unit_.function(name, [&] {
    std::string text = fmt::format("{} void {}({}) {{\n", dialect_.helper, name, parameters);
    if (element.is_bool()) text += "  x = -x;\n";
    if (!scatter && !by_lane)
      return text + fmt::format("  __builtin_memcpy(p, &x, {});\n}}", dtype.bytes() * dtype.lanes);
    return text + fmt::format("  for (int i = 0; i < {}; ++i)\n    {}p[{}] = x[i];\n}}", dtype.lanes,
                              by_lane ? "if (gate[i]) " : "", scatter ? "at[i]" : "i");
  });
  std::string arguments = scatter ? value(base_memory(memory)) : pointer(memory, index);
  arguments += ", " + value(stored);
  if (scatter) arguments += ", " + value(index);
  if (by_lane) arguments += ", " + value(gate);
  line("{}{}({});", condition, name, arguments);
}

}  // namespace lathe::render
