#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"

namespace lathe::render {

void LlvmPrinter::declare_locals() {
  for (const LocalMemory& memory : layout_locals(program_, kStackBytes).memories) {
    Node define = memory.define;
    if (tiles_.contains(define)) continue;
    std::string type = llvm_memory_type(define.dtype());
    if (memory.scratch_offset >= 0) {
      name(define, emit("getelementptr i8, ptr %scratch, i64 {}", memory.scratch_offset));
    } else if (memory_size(define) == 1) {
      name(define, emit("alloca {}, align {}", type,
                        std::min<std::int64_t>(64, local_element_bytes(define.dtype()))));
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

// A mask with one bit a lane; all true where there is no gate.
std::string LlvmPrinter::mask_of(Node gate, int lanes) {
  if (!gate) return "splat (i1 true)";
  if (gate.dtype().lanes == lanes) return value(gate);
  std::string first = shared(fmt::format("insertelement <{} x i1> poison, i1 {}, i64 0", lanes, value(gate)));
  return shared(fmt::format("shufflevector <{0} x i1> {1}, <{0} x i1> poison, <{0} x i32> zeroinitializer",
                            lanes, first));
}

// A load with a false scalar gate reads a constant zero instead: no branch, and nothing else is touched.
std::string LlvmPrinter::load_value(Node node) {
  DType dtype = node.dtype();
  Node memory = node.arg(0), index = node.arg(1), gate = node.arg_count() > 2 ? node.arg(2) : Node();
  if (gate && gate.is_const_int(1)) gate = Node();
  std::string type = llvm_memory_type(dtype);
  int lanes = dtype.lanes, bytes = dtype.bytes();
  DType in_memory = dtype.is_bool() ? dtypes::UInt8.vec(dtype.lanes) : dtype;
  std::string mask_type = fmt::format("<{} x i1>", lanes);

  if (index.dtype().lanes > 1) {
    std::string pointers = address(memory, index), pointer_type = fmt::format("<{} x ptr>", lanes);
    std::string mask = mask_of(gate, lanes);
    return from_memory(dtype, call(fmt::format("llvm.masked.gather.{}.v{}p0", llvm_suffix(in_memory), lanes),
                                   type, {pointer_type, "i32", mask_type, type},
                                   {pointers, fmt::format("{}", bytes), mask, "zeroinitializer"}));
  }
  std::string pointer = address(memory, index);
  if (gate && gate.dtype().lanes > 1)
    return from_memory(dtype, call(fmt::format("llvm.masked.load.{}.p0", llvm_suffix(in_memory)), type,
                                   {"ptr", "i32", mask_type, type},
                                   {pointer, fmt::format("{}", bytes), value(gate), "zeroinitializer"}));
  if (gate) {
    zero_bytes_ = std::max<std::int64_t>(zero_bytes_, std::max<std::int64_t>(64, local_element_bytes(dtype)));
    pointer = emit("select i1 {}, ptr {}, ptr @zeros", value(gate), pointer);
  }
  return from_memory(dtype, emit("load {}, ptr {}, align {}", type, pointer, bytes));
}

// Stores to buffers that follow each other under one scalar gate share one branch, so they are kept back
// until something comes that might tell: another kind of store, a read of what they write, the border of a
// block.
void LlvmPrinter::store_value(Node node) {
  Node gate = node.arg_count() > 3 ? node.arg(3) : Node();
  if (gate && gate.is_const_int(1)) gate = Node();
  if (!gate || gate.dtype().lanes > 1) return print_store(node, gate);
  if (!pending_.empty() && pending_.back().arg(3) != gate) flush_stores();
  pending_.push_back(node);
  if (!base_memory(node.arg(0)).is(Op::Param)) flush_stores();
}

bool LlvmPrinter::keeps_stores_pending(Node node) const {
  if (node.is(Op::Load))
    return std::none_of(pending_.begin(), pending_.end(),
                        [&](Node store) { return base_memory(store.arg(0)) == base_memory(node.arg(0)); });
  if (node.is(Op::Store)) return node.arg_count() > 3 && node.arg(3).dtype().lanes == 1;
  return is_scalar_op(node.op()) || node.is(Op::Cast) || node.is(Op::Bitcast) || node.is(Op::Splat) ||
         node.is(Op::Vec) || node.is(Op::Lane) || node.is(Op::Iota) || node.is(Op::HReduce) ||
         node.is(Op::Pack) || node.is(Op::Dot) || node.is(Op::After);
}

void LlvmPrinter::flush_stores() {
  if (pending_.empty()) return;
  int id = next_block_++;
  line("br i1 {}, label %then{}, label %endif{}", value(pending_.back().arg(3)), id, id);
  label(fmt::format("then{}", id));
  open_block();
  for (Node store : pending_) print_store(store, Node());
  close_block();
  line("br label %endif{}", id);
  label(fmt::format("endif{}", id));
  pending_.clear();
}

// `gate` is a mask or null.
void LlvmPrinter::print_store(Node node, Node gate) {
  Node memory = node.arg(0), index = node.arg(1), stored = node.arg(2);
  DType dtype = stored.dtype();
  int lanes = dtype.lanes, bytes = dtype.bytes();
  DType in_memory = dtype.is_bool() ? dtypes::UInt8.vec(dtype.lanes) : dtype;
  std::string type = llvm_memory_type(dtype), mask_type = fmt::format("<{} x i1>", lanes);
  std::string x = to_memory(dtype, value(stored));
  if (index.dtype().lanes > 1) {
    std::string pointers = address(memory, index);
    call(fmt::format("llvm.masked.scatter.{}.v{}p0", llvm_suffix(in_memory), lanes), "void",
         {type, fmt::format("<{} x ptr>", lanes), "i32", mask_type},
         {x, pointers, fmt::format("{}", bytes), mask_of(gate, lanes)});
  } else if (gate) {
    call(fmt::format("llvm.masked.store.{}.p0", llvm_suffix(in_memory)), "void",
         {type, "ptr", "i32", mask_type}, {x, address(memory, index), fmt::format("{}", bytes), value(gate)});
  } else if (streamed_.stores.contains(node)) {
    print_streamed(type, x, address(memory, index), bytes * lanes, memory);
  } else {
    line("store {} {}, ptr {}, align {}", type, x, address(memory, index), bytes);
  }
}

// A store past the caches has to be aligned. Memory that others own may begin anywhere: then an ordinary one.
// The branch always goes the same way, which costs nothing beside the traffic.
void LlvmPrinter::print_streamed(const std::string& type, const std::string& x, const std::string& pointer,
                                 std::int64_t bytes, Node memory) {
  const int id = next_block_++;
  line("br i1 %p{}.aligned, label %stream{}, label %plain{}", param_number(base_memory(memory)), id, id);
  label(fmt::format("stream{}", id));
  line("store {} {}, ptr {}, align {}, !nontemporal !0", type, x, pointer, std::min(bytes, kLineBytes));
  line("br label %stored{}", id);
  label(fmt::format("plain{}", id));
  line("store {} {}, ptr {}, align 1", type, x, pointer);
  line("br label %stored{}", id);
  label(fmt::format("stored{}", id));
}

}  // namespace lathe::render
