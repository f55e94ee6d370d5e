// Stores, and the branches around them.
#include <algorithm>

#include "base/error.h"
#include "base/planted.h"
#include "ir/access.h"
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"
#include "target/cache_line.h"

namespace lathe::render {
namespace {

Node base_of(Node store) { return base_memory(store.arg(0)); }
bool is_streamed(Node store) { return store.is(Op::Store) && access_of(store).past == 0; }

// A gate that is not always open, or null.
Node gate_of(Node store) {
  Node gate = store.arg_count() > 3 ? store.arg(3) : Node();
  return gate && gate.is_const_int(1) ? Node() : gate;
}

}  // namespace

void LlvmPrinter::find_streamed() {
  for (Node n : program_.code)
    if (is_streamed(n)) streamed_.insert(param_number(base_of(n)));
}

// How many stores from `at` on are printed together: past the caches to one param.
std::size_t LlvmPrinter::streamed_together(std::size_t at) const {
  const std::vector<NodeRef>& code = program_.code;
  std::size_t end = at;
  while (end < code.size() && is_streamed(code[end]) && base_of(code[end]) == base_of(code[at])) ++end;
  return end - at;
}

// A mask, or a branch around a store that has none.
void LlvmPrinter::store_value(Node node) {
  Node gate = gate_of(node);
  const bool masked = node.arg(1).dtype().lanes > 1 && target_.gathers(node.arg(2).dtype());
  if (!gate || gate.dtype().lanes > 1 || masked) return print_store(node, gate);
  const int id = next_block_++;
  line("br i1 {}, label %then{}, label %endif{}", value(gate), id, id);
  label(fmt::format("then{}", id));
  open_shared();
  print_store(node, Node());
  close_shared();
  line("br label %endif{}", id);
  label(fmt::format("endif{}", id));
}

// Stores past the caches have to be aligned. Memory that others own may begin anywhere: then ordinary ones.
// The branch always goes the same way, which costs nothing beside the traffic.
void LlvmPrinter::print_streamed(std::span<const NodeRef> group) {
  std::string streams, plain;
  for (Node store : group) {
    Node stored = store.arg(2);
    const DType dtype = stored.dtype();
    const std::string text =
        fmt::format("  store {} {}, ptr {}, align ", llvm_memory_type(dtype), to_memory(dtype, value(stored)),
                    address(store.arg(0), store.arg(1)));
    streams += fmt::format("{}{}, !nontemporal !0\n", text,
                           std::min<std::int64_t>(std::int64_t{dtype.bytes()} * dtype.lanes, kLineBytes));
    plain += text + "1\n";
  }
  const int id = next_block_++;
  line("br i1 %p{}.aligned, label %stream{}, label %plain{}", param_number(base_of(group.front())), id, id);
  for (const auto& [name, stores] : {std::pair("stream", streams), std::pair("plain", plain)}) {
    label(fmt::format("{}{}", name, id));
    body_ += stores;
    line("br label %stored{}", id);
  }
  label(fmt::format("stored{}", id));
}

// `gate` is a mask or null.
void LlvmPrinter::print_store(Node node, Node gate) {
  check_contiguous(node);
  Node memory = node.arg(0), index = node.arg(1), stored = node.arg(2);
  DType dtype = stored.dtype();
  int lanes = dtype.lanes, bytes = dtype.bytes();
  DType in_memory = dtype.is_bool() ? dtypes::UInt8.vec(dtype.lanes) : dtype;
  std::string type = llvm_memory_type(dtype), mask_type = fmt::format("<{} x i1>", lanes);
  std::string x = to_memory(dtype, value(stored));
  if (planted(Fault::LlvmLaneStore)) gate = Node();
  const std::vector<std::int64_t> places = constant_lanes(index_parts(index).lanes);
  if (!gate && !places.empty() && !target_.gathers(dtype)) {
    const std::string element = llvm_type(in_memory.element());
    for (std::size_t i = 0; i < places.size(); ++i) {
      std::string one = emit("extractelement {} {}, i64 {}", type, x, i);
      line("store {} {}, ptr {}, align {}", element, one, address(memory, index, places[i]), bytes);
    }
  } else if (index.dtype().lanes > 1) {
    std::string pointers = address(memory, index);
    call(fmt::format("llvm.masked.scatter.{}.v{}p0", llvm_suffix(in_memory), lanes), "void",
         {type, fmt::format("<{} x ptr>", lanes), "i32", mask_type},
         {x, pointers, fmt::format("{}", bytes), mask_of(gate, lanes)});
  } else if (gate) {
    call(fmt::format("llvm.masked.store.{}.p0", llvm_suffix(in_memory)), "void",
         {type, "ptr", "i32", mask_type}, {x, address(memory, index), fmt::format("{}", bytes), value(gate)});
  } else {
    line("store {} {}, ptr {}, align {}", type, x, address(memory, index), bytes);
  }
}

}  // namespace lathe::render
