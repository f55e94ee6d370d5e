// Fragments of matrix units: values that live in tile registers, which LLVM does not assign for us.
// Accumulators have a register for as long as the kernel runs; what feeds them takes a free one until its
// last use.
#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"
#include "target/matrix_units.h"

namespace lathe::render {
namespace {

constexpr int kTiles = 8, kRowBytes = 64, kRows = 16;

bool is_tile_dot(Node node) { return node.is(Op::Dot) && dot_shape(node).is_tile(); }

}  // namespace

void LlvmPrinter::find_tiles() {
  int next = 0;
  for (const NodeRef& instruction : program_.code) {
    Node node = instruction;
    if (!is_tile_dot(node)) continue;
    for (std::size_t i = 0; i < 2; ++i) ++tile_uses_[node.arg(i)];
    Node sum = node.arg(2);
    if (!sum.is(Op::Load)) continue;
    if (Node define = base_memory(sum.arg(0)); !tiles_.contains(define)) tiles_[define] = next++;
  }
  if (tile_uses_.empty()) return;
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
  if (tile_uses_.empty()) return;
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

// Whether the instruction concerns a fragment, and so has been printed here.
bool LlvmPrinter::print_tile(Node node) {
  if (tile_uses_.empty()) return false;
  if (is_tile_dot(node)) {
    const MatrixUnit* unit = unit_for_dot(target_, node.text(), true);
    check_internal(unit != nullptr, "llvm_text", "the target has no unit for this product");
    const int* sum = tiles_.find(node.arg(2));
    int tile = sum != nullptr ? *sum : take_tile();
    if (sum == nullptr) clear_tile(tile);
    std::vector<std::string> operands{fmt::format("{}", tile)};
    for (std::size_t i = 0; i < 2; ++i) operands.push_back(fmt::format("{}", *tiles_.find(node.arg(i))));
    call(std::string(unit->llvm), "void", {"i8", "i8", "i8"}, operands);
    for (std::size_t i = 0; i < 2; ++i)
      if (--tile_uses_[node.arg(i)] == 0) free_tiles_.push_back(*tiles_.find(node.arg(i)));
    tiles_[node] = tile;
    return true;
  }
  if (node.is(Op::Load)) {
    if (const int* tile = tiles_.find(base_memory(node.arg(0)))) {
      int held = *tile;
      tiles_[node] = held;
      return true;
    }
    if (!tile_uses_.contains(node)) return false;
    int tile = take_tile();
    tiles_[node] = tile;
    call("llvm.x86.tileloadd64", "void", {"i8", "ptr", "i64"},
         {fmt::format("{}", tile), address(node.arg(0), node.arg(1), true), fmt::format("{}", kRowBytes)});
    return true;
  }
  if (!node.is(Op::Store)) return false;
  const int* value = tiles_.find(node.arg(2));
  if (const int* tile = tiles_.find(base_memory(node.arg(0)))) {
    if (value == nullptr) clear_tile(*tile);  // nothing but zero is ever set
    return true;
  }
  if (value == nullptr) return false;
  call("llvm.x86.tilestored64", "void", {"i8", "ptr", "i64"},
       {fmt::format("{}", *value), address(node.arg(0), node.arg(1), true), fmt::format("{}", kRowBytes)});
  return true;
}

}  // namespace lathe::render
