#include "render/llvm_text.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"
#include "target/cache_line.h"

namespace lathe::render {
namespace {

struct TypeRow {
  Scalar scalar;
  std::string_view type, suffix;
};
constexpr TypeRow kTypes[] = {
    {Scalar::Bool, "i1", "i1"},         {Scalar::Int8, "i8", "i8"},       {Scalar::UInt8, "i8", "i8"},
    {Scalar::Int16, "i16", "i16"},      {Scalar::UInt16, "i16", "i16"},   {Scalar::Int32, "i32", "i32"},
    {Scalar::UInt32, "i32", "i32"},     {Scalar::Int64, "i64", "i64"},    {Scalar::UInt64, "i64", "i64"},
    {Scalar::Index, "i64", "i64"},      {Scalar::Float16, "half", "f16"}, {Scalar::Float32, "float", "f32"},
    {Scalar::Float64, "double", "f64"},
};

const TypeRow& type_row(DType dtype) {
  for (const TypeRow& row : kTypes)
    if (row.scalar == dtype.scalar) return row;
  throw InternalError("llvm_text", fmt::format("no LLVM type for {}", dtype.name()));
}

std::string with_lanes(std::string_view scalar, int lanes) {
  return lanes == 1 ? std::string(scalar) : fmt::format("<{} x {}>", lanes, scalar);
}

}  // namespace

std::string llvm_type(DType dtype) { return with_lanes(type_row(dtype).type, dtype.lanes); }
std::string llvm_memory_type(DType dtype) {
  return with_lanes(dtype.is_bool() ? "i8" : type_row(dtype).type, dtype.lanes);
}
std::string llvm_suffix(DType dtype) {
  std::string_view suffix = type_row(dtype).suffix;
  return dtype.lanes == 1 ? std::string(suffix) : fmt::format("v{}{}", dtype.lanes, suffix);
}

// Floats are written as the bits of the double of the same value, which is exact.
std::string llvm_constant(DType dtype, Node constant) {
  std::string text;
  if (dtype.is_bool()) {
    text = constant.int_attr() != 0 ? "true" : "false";
  } else if (dtype.is_float()) {
    double v = constant.float_attr();
    if (dtype.scalar == Scalar::Float32) v = static_cast<double>(static_cast<float>(v));
    text = fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(v));
  } else {
    text = fmt::format("{}", constant.int_attr());
  }
  return dtype.lanes == 1 ? text : fmt::format("splat ({} {})", llvm_type(dtype.element()), text);
}

std::string LlvmPrinter::call(const std::string& intrinsic, const std::string& result,
                              std::vector<std::string> types, std::vector<std::string> operands) {
  declarations_.insert(fmt::format("declare {} @{}({})", result, intrinsic, fmt::join(types, ", ")));
  std::string arguments;
  for (std::size_t i = 0; i < types.size(); ++i)
    arguments += fmt::format("{}{} {}", i == 0 ? "" : ", ", types[i], operands[i]);
  if (result == "void") {
    line("call void @{}({})", intrinsic, arguments);
    return "";
  }
  return emit("call {} @{}({})", result, intrinsic, arguments);
}

std::string LlvmPrinter::value(Node node) {
  if (const std::string* found = names_.find(node)) return *found;
  if (Node c = constant_of(node)) return llvm_constant(node.dtype(), c);
  if (const std::string* found = wide_.find(node)) return emit("trunc i64 {} to i32", *found);
  if (node.is(Op::Var))
    for (std::size_t i = 0; i < program_.variables.size(); ++i)
      if (program_.variables[i]->text() == node.text())
        return node.dtype().bits() == 32 ? emit("trunc i64 %n{} to i32", i) : fmt::format("%n{}", i);
  throw InternalError("llvm_text", fmt::format("{} is used before it is listed", info(node.op()).name));
}

void LlvmPrinter::label(std::string_view text) {
  fmt::format_to(std::back_inserter(body_), "{}:\n", text);
  block_ = text;
}

void LlvmPrinter::entry() {
  for (std::size_t i = 0; i < program_.params.size(); ++i) {
    line("%b{0} = getelementptr ptr, ptr %buffers, i64 {0}", i);
    line("%p{0} = load ptr, ptr %b{0}, align 8", i);
  }
  for (std::size_t i : streamed_) {
    line("%p{0}.at = ptrtoint ptr %p{0} to i64", i);
    line("%p{0}.in_line = and i64 %p{0}.at, {1}", i, kLineBytes - 1);
    line("%p{0}.aligned = icmp eq i64 %p{0}.in_line, 0", i);
  }
  for (std::size_t i = 0; i < program_.variables.size(); ++i) {
    line("%n{0}.at = getelementptr i64, ptr %variables, i64 {0}", i);
    line("%n{0} = load i64, ptr %n{0}.at, align 8", i);
  }
  declare_locals();
}

void LlvmPrinter::open_loop(Node range) {
  OpenBlock block{next_block_++, block_, "", 0, {}, {}};
  block.counter = fmt::format("%r{}.{}", range_id(range), block.id);
  (range.dtype().bits() == 32 ? wide_ : names_)[range] = block.counter;
  if (range.arg(0).lo() >= 1) {
    line("br label %loop{}", block.id);
  } else {
    std::string any = emit("icmp slt i64 0, {}", wide(range.arg(0)));
    line("br i1 {}, label %loop{}, label %done{}", any, block.id, block.id);
  }
  label(fmt::format("loop{}", block.id));
  block.head = body_.size();
  open_registers(range, block);
  open_.push_back(std::move(block));
  open_shared();
}

const std::string& LlvmPrinter::innermost_counter() const {
  std::size_t i = open_.size();
  while (i > 0 && open_[i - 1].counter.empty()) --i;
  check_internal(i > 0, "llvm_text", "a step of a loop outside of any");
  return open_[i - 1].counter;
}

void LlvmPrinter::close_loop(Node range) {
  check_internal(!open_.empty(), "llvm_text", "End of a range that is not open");
  OpenBlock block = std::move(open_.back());
  open_.pop_back();
  close_shared();
  line("{0}.next = add nuw nsw i64 {0}, 1", block.counter);
  std::string more = emit("icmp slt i64 {}.next, {}", block.counter, wide(range.arg(0)));
  line("br i1 {}, label %loop{}, label %done{}", more, block.id, block.id);
  body_.insert(block.head, fmt::format("  {0} = phi i64 [ 0, %{1} ], [ {0}.next, %{2} ]\n{3}", block.counter,
                                       block.before, block_, carried_lines(block)));
  std::string last = block_;
  label(fmt::format("done{}", block.id));
  join_changed(block, last);
}

void LlvmPrinter::open_if(Node node) {
  OpenBlock block{next_block_++, block_, "", 0, {}, {}};
  line("br i1 {}, label %then{}, label %endif{}", value(node.arg(0)), block.id, block.id);
  label(fmt::format("then{}", block.id));
  open_registers(node, block);
  open_.push_back(std::move(block));
  open_shared();
}

void LlvmPrinter::close_if() {
  check_internal(!open_.empty(), "llvm_text", "EndIf without If");
  OpenBlock block = std::move(open_.back());
  open_.pop_back();
  close_shared();
  line("br label %endif{}", block.id);
  std::string last = block_;
  label(fmt::format("endif{}", block.id));
  join_changed(block, last);
}

void LlvmPrinter::instruction(Node node) {
  switch (node.op()) {
    // Operands only, or of no meaning on one thread.
    case Op::Const:
    case Op::Param:
    case Op::Var:
    case Op::Define:
    case Op::After:
    case Op::Barrier:
    case Op::Sink: return;
    case Op::Special:
      if (node.text() != "t") throw InternalError("llvm_text", "a CPU launch has no index " + node.text());
      (node.dtype().bits() == 32 ? wide_ : names_)[node] = "%part";
      return;
    case Op::Range: return open_loop(node);
    case Op::End: return close_loop(node.arg(node.arg_count() - 1));
    case Op::If: return open_if(node);
    case Op::EndIf: return close_if();
    case Op::Load:
      return held_.contains(base_memory(node.arg(0))) ? load_register(node) : name(node, load_value(node));
    case Op::Store:
      return held_.contains(base_memory(node.arg(0))) ? store_register(node) : store_value(node);
    case Op::Prefetch: {  // whether to write; 3: into L1, 2: into L2
      const std::int64_t how = node.int_attr();
      call("llvm.prefetch.p0", "void", {"ptr", "i32", "i32", "i32"},
           {address(node.arg(0), node.arg(1)), how == 3 ? "1" : "0", how == 2 ? "2" : "3", "1"});
      return;
    }
    case Op::Cast:
    case Op::Bitcast: return name(node, cast_value(node));
    case Op::Splat:
    case Op::Vec:
    case Op::Lane:
    case Op::Iota:
    case Op::HReduce: return name(node, vector_op(node));
    case Op::Pack: return name(node, emit("bitcast {} to {}", typed(node.arg(0)), llvm_type(node.dtype())));
    case Op::Dot: return name(node, dot_product(node));
    case Op::Narrow:
    case Op::Table:
    case Op::Fraction:
    case Op::Scale: return name(node, machine_op(node));
    default: break;
  }
  if (!is_scalar_op(node.op()))
    throw InternalError("llvm_text", fmt::format("{} is not allowed in a program", info(node.op()).name));
  name(node, scalar_op(node));
}

std::string LlvmPrinter::print() {
  find_indices();
  find_streamed();
  find_tiles();
  find_registers();
  entry();
  set_tiles(true);
  for (std::size_t at = 0; at < program_.code.size(); ++at) {
    Node node = program_.code[at];
    if (unused_.contains(node) || print_index(node)) continue;
    if (const std::size_t count = streamed_together(at); count > 0) {
      print_streamed(std::span(program_.code).subspan(at, count));
      at += count - 1;
      continue;
    }
    if (!print_tile(node)) instruction(node);
    release_tiles(node);
    extend_index(node);
  }
  // Streaming stores become visible in no order: a fence orders them before any work that waits for this
  // kernel.
  if (!streamed_.empty()) line("fence seq_cst");
  set_tiles(false);
  line("ret void");
  std::string out =
      fmt::format("; {} for {}\ntarget triple = \"{}\"\n\n", program_.name, target_.name, target_.triple);
  if (zero_bytes_ > 0)
    out += fmt::format("@zeros = private constant [{} x i8] zeroinitializer, align 64\n\n", zero_bytes_);
  out += globals_;
  for (const std::string& declaration : declarations_) out += declaration + "\n";
  if (!declarations_.empty()) out += "\n";
  out += fmt::format(
      "define void @{}(ptr noalias %buffers, ptr noalias %variables, i64 %part, ptr noalias %scratch) #0 "
      "{{\n",
      program_.name);
  out += "entry:\n" + body_ + "}\n\n";
  out += fmt::format("attributes #0 = {{ nounwind \"prefer-vector-width\"=\"{}\" }}\n",
                     target_.vector_bytes * 8);
  if (!streamed_.empty()) out += "\n!0 = !{i32 1}\n";
  return out;
}

std::string llvm_text(const Program& program, const Target& target) {
  Scope scope;
  bool native_half =
      std::find(target.converted.begin(), target.converted.end(), Scalar::Float16) != target.converted.end();
  Program lowered = lower_small_floats(program, {native_half, false});
  return LlvmPrinter(lowered, target).print();
}

}  // namespace lathe::render
