#include <algorithm>

#include "base/error.h"
#include "base/planted.h"
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"

namespace lathe::render {

void LlvmPrinter::declare_locals() {
  for (const LocalMemory& memory : layout_locals(program_, kStackBytes).memories) {
    Node define = memory.define;
    if (tiles_.contains(define) || held_.contains(define)) continue;
    std::string type = llvm_memory_type(define.dtype());
    if (memory.scratch_offset >= 0) {
      name(define, emit("getelementptr i8, ptr %scratch, i64 {}", memory.scratch_offset));
    } else {
      name(define, emit("alloca [{} x {}], align 64", memory_size(define), type));
    }
  }
}

std::size_t LlvmPrinter::param_number(Node param) const {
  std::size_t i = 0;
  while (i < program_.params.size() && program_.params[i].slot != param_slot(param)) ++i;
  check_internal(i < program_.params.size(), "llvm_text", "a param that the program does not list");
  return i;
}

std::string LlvmPrinter::from_memory(DType dtype, const std::string& x) {
  if (!dtype.is_bool()) return x;
  return emit("icmp ne {} {}, zeroinitializer", llvm_memory_type(dtype), x);
}

std::string LlvmPrinter::to_memory(DType dtype, const std::string& x) {
  if (!dtype.is_bool()) return x;
  return emit("zext {} {} to {}", llvm_type(dtype), x, llvm_memory_type(dtype));
}

// A mask with one bit per lane; all true where there is no gate.
std::string LlvmPrinter::mask_of(Node gate, int lanes) {
  if (!gate) return "splat (i1 true)";
  if (gate.dtype().lanes == lanes) return value(gate);
  std::string first = shared(fmt::format("insertelement <{} x i1> poison, i1 {}, i64 0", lanes, value(gate)));
  return shared(fmt::format("shufflevector <{0} x i1> {1}, <{0} x i1> poison, <{0} x i32> zeroinitializer",
                            lanes, first));
}

// Strided lanes, by one instruction where the machine has it: else LLVM would put a branch around each lane;
// `gate` has one bit per lane, or is null.
std::string LlvmPrinter::gather(Node memory, Node index, DType dtype, Node gate) {
  const int lanes = dtype.lanes;
  const std::string type = llvm_type(dtype), bytes = fmt::format("{}", dtype.bytes());
  const std::vector<std::int64_t> places = constant_lanes(index_parts(index).lanes);
  if (target_.gathers(dtype) || gate || places.empty())
    return call(fmt::format("llvm.masked.gather.{}.v{}p0", llvm_suffix(dtype), lanes), type,
                {fmt::format("<{} x ptr>", lanes), "i32", fmt::format("<{} x i1>", lanes), type},
                {address(memory, index), bytes, mask_of(gate, lanes), "zeroinitializer"});
  const std::string element = llvm_type(dtype.element());
  std::string built = "poison";
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::string x = emit("load {}, ptr {}, align {}", element, address(memory, index, places[i]), bytes);
    built = emit("insertelement {} {}, {} {}, i64 {}", type, built, element, x, i);
  }
  return built;
}

// A value that is computed where the scalar gate holds and 0 elsewhere.
std::string LlvmPrinter::only_where(Node gate, const std::string& type,
                                    const std::function<std::string()>& compute) {
  const int id = next_block_++;
  const std::string before = block_;
  line("br i1 {}, label %then{}, label %endif{}", value(gate), id, id);
  label(fmt::format("then{}", id));
  open_shared();
  const std::string x = compute();
  close_shared();
  const std::string last = block_;
  line("br label %endif{}", id);
  label(fmt::format("endif{}", id));
  return emit("phi {} [ zeroinitializer, %{} ], [ {}, %{} ]", type, before, x, last);
}

// A load with a false scalar gate reads a constant zero instead: no branch, and nothing else is touched.
std::string LlvmPrinter::load_value(Node node) {
  check_contiguous(node);
  DType dtype = node.dtype();
  Node memory = node.arg(0), index = node.arg(1), gate = node.arg_count() > 2 ? node.arg(2) : Node();
  if (gate && (gate.is_const_int(1) || planted(Fault::LlvmGate))) gate = Node();
  std::string type = llvm_memory_type(dtype);
  int lanes = dtype.lanes, bytes = dtype.bytes();
  DType in_memory = dtype.is_bool() ? dtypes::UInt8.vec(dtype.lanes) : dtype;

  if (index.dtype().lanes > 1) {
    if (!gate || gate.dtype().lanes > 1 || target_.gathers(dtype))
      return from_memory(dtype, gather(memory, index, in_memory, gate));
    return from_memory(dtype,
                       only_where(gate, type, [&] { return gather(memory, index, in_memory, Node()); }));
  }
  std::string pointer = address(memory, index);
  if (gate && gate.dtype().lanes > 1)
    return from_memory(dtype, call(fmt::format("llvm.masked.load.{}.p0", llvm_suffix(in_memory)), type,
                                   {"ptr", "i32", fmt::format("<{} x i1>", lanes), type},
                                   {pointer, fmt::format("{}", bytes), value(gate), "zeroinitializer"}));
  if (gate) {
    zero_bytes_ = std::max<std::int64_t>(zero_bytes_, std::max<std::int64_t>(64, local_element_bytes(dtype)));
    pointer = emit("select i1 {}, ptr {}, ptr @zeros", value(gate), pointer);
  }
  return from_memory(dtype, emit("load {}, ptr {}, align {}", type, pointer, bytes));
}

}  // namespace lathe::render
