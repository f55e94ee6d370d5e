// Stores, and the branches around them.
#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"

namespace lathe::render {
namespace {

// What waits is held in registers.
constexpr std::size_t kMostPending = 32;

Node base_of(Node store) { return base_memory(store.arg(0)); }

// A gate that is not always open, or null.
Node gate_of(Node store) {
  Node gate = store.arg_count() > 3 ? store.arg(3) : Node();
  return gate && gate.is_const_int(1) ? Node() : gate;
}

// Whether two stores surely write different elements: those of one place, a constant distance apart.
bool apart(Node x, Node y) {
  if (base_of(x) != base_of(y)) return true;
  const IndexParts a = index_parts(x.arg(1)), b = index_parts(y.arg(1));
  if (a.scalar != b.scalar || a.lanes || b.lanes) return false;
  return a.constant + x.arg(2).dtype().lanes <= b.constant ||
         b.constant + y.arg(2).dtype().lanes <= a.constant;
}

}  // namespace

// Under a scalar gate, or past the caches: a store that takes a branch.
bool LlvmPrinter::branches(Node store) const {
  Node gate = gate_of(store);
  // Lanes that lie apart need no branch where the machine stores them under a mask.
  const bool masked = store.arg(1).dtype().lanes > 1 && gathers(store.arg(2).dtype());
  if (gate) return gate.dtype().lanes == 1 && !masked;
  return streamed_.stores.contains(store);
}

// Stores that take the same branch share one. So they are kept back until something comes that might tell: a
// store of another kind or perhaps to the same place, a read of what they write, the border of a block.
void LlvmPrinter::store_value(Node node) {
  if (!branches(node)) return print_store(node, gate_of(node));
  Node gate = gate_of(node);
  const bool streamed = streamed_.stores.contains(node);
  const auto same = [&](const PendingStores& group) {
    return group.gate == gate && group.streamed == streamed &&
           (!streamed || base_of(group.stores.front()) == base_of(node));
  };
  std::size_t waiting = 0;
  bool meets = false;
  for (const PendingStores& group : pending_) {
    waiting += group.stores.size();
    meets |= !same(group) && !std::all_of(group.stores.begin(), group.stores.end(),
                                          [&](Node store) { return apart(store, node); });
  }
  if (meets || waiting >= kMostPending) flush_stores();
  auto found = std::find_if(pending_.begin(), pending_.end(), same);
  if (found == pending_.end()) found = pending_.insert(found, {gate, streamed, {}});
  found->stores.push_back(node);
  if (!base_of(node).is(Op::Param)) flush_stores();
}

bool LlvmPrinter::keeps_stores_pending(Node node) const {
  if (pending_.empty()) return true;
  if (node.is(Op::Load)) {
    const auto reads = [&](Node store) { return base_of(store) == base_memory(node.arg(0)); };
    return std::none_of(pending_.begin(), pending_.end(), [&](const PendingStores& group) {
      return std::any_of(group.stores.begin(), group.stores.end(), reads);
    });
  }
  if (node.is(Op::Store)) return branches(node);
  return is_scalar_op(node.op()) || node.is(Op::Cast) || node.is(Op::Bitcast) || node.is(Op::Splat) ||
         node.is(Op::Vec) || node.is(Op::Lane) || node.is(Op::Iota) || node.is(Op::HReduce) ||
         node.is(Op::Pack) || node.is(Op::Dot) || node.is(Op::After) || node.is(Op::Prefetch);
}

void LlvmPrinter::flush_stores() {
  for (const PendingStores& group : std::exchange(pending_, {})) {
    if (!group.gate) {
      print_group(group);
      continue;
    }
    const int id = next_block_++;
    line("br i1 {}, label %then{}, label %endif{}", value(group.gate), id, id);
    label(fmt::format("then{}", id));
    open_shared();
    print_group(group);
    close_shared();
    line("br label %endif{}", id);
    label(fmt::format("endif{}", id));
  }
}

// Stores past the caches have to be aligned. Memory that others own may begin anywhere: then ordinary ones.
// The branch always goes the same way, which costs nothing beside the traffic.
void LlvmPrinter::print_group(const PendingStores& group) {
  if (!group.streamed) {
    for (Node store : group.stores) print_store(store, Node());
    return;
  }
  std::string streams, plain;
  for (Node store : group.stores) {
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
  line("br i1 %p{}.aligned, label %stream{}, label %plain{}", param_number(base_of(group.stores.front())), id,
       id);
  for (const auto& [name, stores] : {std::pair("stream", streams), std::pair("plain", plain)}) {
    label(fmt::format("{}{}", name, id));
    body_ += stores;
    line("br label %stored{}", id);
  }
  label(fmt::format("stored{}", id));
}

// `gate` is a mask or null.
void LlvmPrinter::print_store(Node node, Node gate) {
  Node memory = node.arg(0), index = node.arg(1), stored = node.arg(2);
  DType dtype = stored.dtype();
  int lanes = dtype.lanes, bytes = dtype.bytes();
  DType in_memory = dtype.is_bool() ? dtypes::UInt8.vec(dtype.lanes) : dtype;
  std::string type = llvm_memory_type(dtype), mask_type = fmt::format("<{} x i1>", lanes);
  std::string x = to_memory(dtype, value(stored));
  const std::vector<std::int64_t> places = constant_lanes(index_parts(index).lanes);
  if (!gate && !places.empty() && !gathers(dtype)) {
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
