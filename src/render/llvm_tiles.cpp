// Fragments of matrix units: values that live in tile registers, which LLVM does not assign for us.
// Accumulators have a register for as long as the kernel runs; what feeds them takes a free one until its
// last use, or until the end of the loop that uses it again in its next step.
#include <algorithm>

#include "base/error.h"
#include "ir/access.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"
#include "render/unit_text.h"
#include "target/matrix_units.h"

namespace lathe::render {
namespace {

constexpr int kTiles = 8, kRowBytes = 64, kRows = 16;

bool is_tile_dot(Node node) { return node.is(Op::Dot) && dot_shape(node).is_tile(); }

// The last instruction that needs each fragment that is read: a product, or the End of a loop that began
// after the fragment was read, whose next step needs it again.
NodeMap<Node> last_uses(const Program& program) {
  NodeMap<Node> last;
  NodeMap<std::size_t> read_at;
  std::vector<std::pair<Node, std::size_t>> open;  // loops, and where each began
  NodeMap<std::vector<Node>> until_end;            // by loop
  for (std::size_t at = 0; at < program.code.size(); ++at) {
    Node node = program.code[at];
    if (node.is(Op::Load) || node.is(Op::Pack)) read_at[node] = at;
    if (node.is(Op::Range)) open.emplace_back(node, at);
    if (node.is(Op::End)) {
      for (Node fragment : until_end[open.back().first]) last[fragment] = node;
      open.pop_back();
    }
    if (!is_tile_dot(node)) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      Node fragment = node.arg(i);
      const std::size_t* read = read_at.find(fragment);
      auto again = std::find_if(open.begin(), open.end(),
                                [&](const auto& loop) { return read != nullptr && loop.second > *read; });
      last[fragment] = node;
      if (again != open.end()) until_end[again->first].push_back(fragment);
    }
  }
  return last;
}

}  // namespace

void LlvmPrinter::find_tiles() {
  int next = 0;
  for (const NodeRef& instruction : program_.code) {
    Node node = instruction;
    if (!is_tile_dot(node)) continue;
    Node sum = node.arg(2);
    if (!sum.is(Op::Load)) continue;
    if (Node define = base_memory(sum.arg(0)); !tiles_.contains(define)) tiles_[define] = next++;
  }
  tile_last_ = last_uses(program_);
  if (tile_last_.empty()) return;
  for (const auto& [fragment, last] : tile_last_) tiles_done_[last].push_back(fragment);
  for (int tile = kTiles; tile-- > next;) free_tiles_.push_back(tile);
  // Palette 1: eight tiles of 16 rows of 64 bytes; widths from byte 16 on, heights from byte 48 on.
  std::string bytes;
  for (int i = 0; i < 64; ++i) {
    int value = i == 0 ? 1 : 0;
    if (i >= 16 && i < 16 + 2 * kTiles && i % 2 == 0) value = kRowBytes;
    if (i >= 48 && i < 48 + kTiles) value = kRows;
    bytes += fmt::format("\\{:02X}", value);
  }
  globals_ += fmt::format("@tiles = private constant [64 x i8] c\"{}\", align 64\n\n", bytes);
}

void LlvmPrinter::set_tiles(bool begin) {
  if (tile_last_.empty()) return;
  if (begin)
    call("llvm.x86.ldtilecfg", "void", {"ptr"}, {"@tiles"});
  else
    call("llvm.x86.tilerelease", "void", {}, {});
}

int LlvmPrinter::take_tile() {
  check_internal(!free_tiles_.empty(), "llvm_text", "more fragments than tile registers");
  int tile = free_tiles_.back();
  free_tiles_.pop_back();
  return tile;
}

void LlvmPrinter::clear_tile(int tile) {
  call("llvm.x86.tilezero", "void", {"i8"}, {fmt::format("{}", tile)});
}

// A fragment is the value of a load, or packed from one whose rows are apart.
void LlvmPrinter::read_tile(Node fragment, int tile) {
  Node load = fragment.is(Op::Pack) ? fragment.arg(0) : fragment;
  const Access how = access_of(load);
  const std::int64_t pitch = how.rows > 1 ? how.pitch * load.dtype().bytes() : kRowBytes;
  const std::vector<std::string> operands{fmt::format("{}", tile), address(load.arg(0), load.arg(1)),
                                          fmt::format("{}", pitch)};
  auto read = [&](const char* instruction) { call(instruction, "void", {"i8", "ptr", "i64"}, operands); };
  constexpr auto kNear = "llvm.x86.tileloadd64", kPast = "llvm.x86.tileloaddt164";
  if (how.past < 0) return read(kNear);
  if (how.past == 0) return read(kPast);
  const int id = next_block_++;
  line("br i1 {}, label %near{}, label %past{}", emit("icmp slt i64 {}, {}", innermost_counter(), how.past),
       id, id);
  label(fmt::format("near{}", id));
  read(kNear);
  line("br label %read{}", id);
  label(fmt::format("past{}", id));
  read(kPast);
  line("br label %read{}", id);
  label(fmt::format("read{}", id));
}

// After an instruction: the registers of fragments that nothing needs any more are free.
void LlvmPrinter::release_tiles(Node node) {
  if (const std::vector<Node>* done = tiles_done_.find(node))
    for (Node fragment : *done)
      if (const int* tile = tiles_.find(fragment)) free_tiles_.push_back(*tile);
}

// Whether the instruction concerns a fragment, and so has been printed here.
bool LlvmPrinter::print_tile(Node node) {
  if (tile_last_.empty()) return false;
  if (is_tile_dot(node)) {
    const MatrixUnit* unit = unit_for_dot(target_.units, node.text(), true);
    check_internal(unit != nullptr, "llvm_text", "the target has no unit for this product");
    const int* sum = tiles_.find(node.arg(2));
    int tile = sum != nullptr ? *sum : take_tile();
    if (sum == nullptr) clear_tile(tile);
    std::vector<std::string> operands{fmt::format("{}", tile)};
    for (std::size_t i = 0; i < 2; ++i) operands.push_back(fmt::format("{}", *tiles_.find(node.arg(i))));
    call(std::string(text_of(*unit).llvm), "void", {"i8", "i8", "i8"}, operands);
    tiles_[node] = tile;
    return true;
  }
  if (node.is(Op::Load)) {
    if (const int* tile = tiles_.find(base_memory(node.arg(0)))) {
      int held = *tile;
      tiles_[node] = held;
      return true;
    }
    if (access_of(node).rows > 1) return true;  // of a fragment that is packed from it
  }
  if ((node.is(Op::Load) || node.is(Op::Pack)) && tile_last_.contains(node)) {
    int tile = take_tile();
    tiles_[node] = tile;
    read_tile(node, tile);
    return true;
  }
  if (!node.is(Op::Store)) return false;
  const int* value = tiles_.find(node.arg(2));
  if (const int* tile = tiles_.find(base_memory(node.arg(0)))) {
    if (value == nullptr) clear_tile(*tile);  // nothing but zero is ever set
    return true;
  }
  if (value == nullptr) return false;
  store_tile(node, *value);
  return true;
}

void LlvmPrinter::store_tile(Node node, int tile) {
  const Access how = access_of(node);
  const std::int64_t pitch = how.rows > 1 ? how.pitch * node.arg(2).dtype().bytes() : kRowBytes;
  call("llvm.x86.tilestored64", "void", {"i8", "ptr", "i64"},
       {fmt::format("{}", tile), address(node.arg(0), node.arg(1)), fmt::format("{}", pitch)});
}

}  // namespace lathe::render
