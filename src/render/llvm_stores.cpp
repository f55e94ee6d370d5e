// Stores, and the branches around them.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"

namespace lathe::render {
namespace {

// What waits is held in registers.
constexpr std::size_t kMostPending = 32;
// Steps of a sum whose stores show beside it.
constexpr double kShortSum = 256;

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

// Lanes that lie apart by constants: where other such stores write the elements beside them, they are rows.
bool LlvmPrinter::scatters(Node store) const {
  return !gate_of(store) && !streamed_.stores.contains(store) && !store.arg(2).dtype().is_bool() &&
         !constant_lanes(index_parts(store.arg(1)).lanes).empty();
}

// Stores that take the same branch share one. So they are kept back until something comes that might tell: a
// store of another kind or perhaps to the same place, a read of what they write, the border of a block.
void LlvmPrinter::store_value(Node node) {
  if (!branches(node) && !scatters(node)) return print_store(node, gate_of(node));
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
  if (node.is(Op::Store)) return branches(node) || scatters(node);
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

// Tiles whose lanes lie apart and whose vectors write neighbours, as those of a convolution with lanes along
// the channels: four vectors at a time, or two, are transposed, and each lane stores four elements at once.
// Behind a long sum it does not show how they are stored, and a scatter takes LLVM a fraction of the time.
// Returns the stores that are left.
std::vector<Node> LlvmPrinter::print_rows(const std::vector<Node>& stores) {
  const IndexParts first = index_parts(stores[0].arg(1));
  const std::vector<std::int64_t> places = constant_lanes(first.lanes);
  const DType dtype = stores[0].arg(2).dtype();
  const std::int64_t lanes = dtype.lanes;
  if (places.empty() || lanes % 4 != 0 || dtype.is_bool()) return stores;
  const std::int64_t step = places[1] - places[0];
  if (std::abs(step) < 4 || (gathers(dtype) && sum_steps_ > kShortSum)) return stores;
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i] - places[i - 1] != step) return stores;
  std::vector<std::pair<std::int64_t, Node>> tile;  // by place
  for (Node store : stores) {
    const IndexParts parts = index_parts(store.arg(1));
    if (base_of(store) != base_of(stores[0]) || parts.scalar != first.scalar || parts.lanes != first.lanes ||
        store.arg(2).dtype() != dtype)
      return stores;
    // No element may be written twice: the order would matter.
    for (const auto& [place, other] : tile)
      if ((parts.constant - place) % step == 0 && std::abs((parts.constant - place) / step) < lanes)
        return stores;
    tile.emplace_back(parts.constant, store);
  }
  std::stable_sort(tile.begin(), tile.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Node> left;
  for (std::size_t i = 0; i < tile.size();) {
    std::size_t count = 1;
    while (count < 4 && i + count < tile.size() &&
           tile[i + count].first == tile[i].first + static_cast<std::int64_t>(count))
      ++count;
    count = count == 3 ? 2 : count;
    if (count == 1)
      left.push_back(tile[i].second);
    else
      print_transposed({tile.data() + i, count}, places);
    i += count;
  }
  return left;
}

void LlvmPrinter::print_transposed(std::span<const std::pair<std::int64_t, Node>> stores,
                                   const std::vector<std::int64_t>& places) {
  const DType dtype = stores[0].second.arg(2).dtype();
  const std::int64_t lanes = dtype.lanes, count = static_cast<std::int64_t>(stores.size());
  const std::string type = llvm_type(dtype);
  const auto shuffle = [&](const std::string& a, const std::string& b, std::int64_t length, auto pick) {
    std::string picks;
    for (std::int64_t i = 0; i < length; ++i) picks += fmt::format("{}i32 {}", i == 0 ? "" : ", ", pick(i));
    return emit("shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>", type, a, b, length, picks);
  };
  std::vector<std::string> x;
  for (const auto& [place, store] : stores) x.push_back(value(store.arg(2)));
  std::vector<std::string> rows;  // of every `count` lanes the first, the second, ...
  if (count == 2) {
    for (std::int64_t q = 0; q < 2; ++q)
      rows.push_back(
          shuffle(x[0], x[1], lanes, [&](std::int64_t i) { return i % 2 * lanes + i / 2 * 2 + q; }));
  } else {
    // Within each four lanes: a0 b0 a1 b1 and a2 b2 a3 b3, then halves of two such vectors.
    const auto weave = [&](const std::string& a, const std::string& b, std::int64_t half) {
      return shuffle(a, b, lanes,
                     [&](std::int64_t i) { return i % 2 * lanes + i / 4 * 4 + half * 2 + i % 4 / 2; });
    };
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::string low = weave(x[0], x[1], half), high = weave(x[2], x[3], half);
      for (std::int64_t q = 0; q < 2; ++q)
        rows.push_back(shuffle(low, high, lanes, [&](std::int64_t i) {
          return (i % 4 < 2 ? 0 : lanes) + i / 4 * 4 + q * 2 + i % 2;
        }));
    }
  }
  const std::string part = llvm_type(dtype.element().vec(static_cast<std::uint16_t>(count)));
  Node memory = stores[0].second.arg(0), index = stores[0].second.arg(1);
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    const std::string row = shuffle(rows[static_cast<std::size_t>(lane % count)], "poison", count,
                                    [&](std::int64_t i) { return lane / count * count + i; });
    line("store {} {}, ptr {}, align {}", part, row,
         address(memory, index, places[static_cast<std::size_t>(lane)]), dtype.bytes());
  }
}

// Stores past the caches have to be aligned. Memory that others own may begin anywhere: then ordinary ones.
// The branch always goes the same way, which costs nothing beside the traffic.
void LlvmPrinter::print_group(const PendingStores& group) {
  if (!group.streamed) {
    for (Node store : print_rows(group.stores)) print_store(store, Node());
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
