// Stores, and the branches around them.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "ir/access.h"
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"
#include "target/cache_line.h"

namespace lathe::render {
namespace {

// Steps of a sum whose stores show beside it.
constexpr double kShortSum = 256;

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

// Lanes a constant distance apart, in every one of which something is stored.
bool LlvmPrinter::is_strided(Node store) const {
  return store.is(Op::Store) && !gate_of(store) && !is_streamed(store) && !store.arg(2).dtype().is_bool() &&
         !constant_lanes(index_parts(store.arg(1)).lanes).empty();
}

// How many stores from `at` on are printed together: past the caches to one param, or with strided lanes.
std::size_t LlvmPrinter::stores_together(std::size_t at) const {
  Node first = program_.code[at];
  const bool streamed = is_streamed(first);
  if ((!streamed && !is_strided(first)) || held_.contains(base_of(first))) return 0;
  std::size_t end = at + 1;
  for (; end < program_.code.size(); ++end) {
    Node n = program_.code[end];
    const bool same =
        streamed ? n.is(Op::Store) && is_streamed(n) && base_of(n) == base_of(first) : is_strided(n);
    if (!same || held_.contains(base_of(n))) break;
  }
  return end - at;
}

void LlvmPrinter::print_stores(std::size_t at, std::size_t count) {
  std::vector<Node> stores(program_.code.begin() + static_cast<std::ptrdiff_t>(at),
                           program_.code.begin() + static_cast<std::ptrdiff_t>(at + count));
  if (is_streamed(stores[0])) return print_streamed(stores);
  for (Node store : print_rows(stores)) print_store(store, Node());
}

// A mask, or a branch around a store that has none.
void LlvmPrinter::store_value(Node node) {
  Node gate = gate_of(node);
  const bool masked = node.arg(1).dtype().lanes > 1 && gathers(node.arg(2).dtype());
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

// Tiles with strided lanes whose vectors write neighbours, as those of a convolution with lanes along
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
void LlvmPrinter::print_streamed(const std::vector<Node>& group) {
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
