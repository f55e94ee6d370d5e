// Fragments of matrix units: values that live in tile registers, which LLVM does not assign for us.
// Accumulators have a register for as long as the kernel runs; what feeds them takes a free one until its
// last use, or until the end of the loop that uses it again in its next step.
#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/ranges.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"
#include "render/unit_text.h"
#include "target/cache_line.h"
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
    if (node.is(Op::Load)) read_at[node] = at;
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
  tile_steps_kept_ = kept_steps(program_, tile_last_, target_.l1);
  next_fragments_ = next_fragments(program_, tile_last_, target_.l2);
  result_lines_ = result_lines(program_, tile_last_, target_.l2);
  direct_results_ = direct_results(program_, kRows, kRowBytes / 4);
  TileSources sources = tile_sources(program_, tile_last_, kRows, kRowBytes / 4, target_.l1);
  tile_sources_ = std::move(sources.rows), skipped_ = std::move(sources.copies);
  // Steps that read all the way from the second cache have no room for more.
  bool room = true;
  for (const auto& [fragment, kept] : tile_steps_kept_)
    room &= kept.steps == 0 || kept.steps >= kept.loop.arg(0).hi();
  if (room && streamed_.empty()) later_rows_ = later_rows(program_, tile_last_, kRows, kRowBytes / 4);
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
  if (begin) {
    call("llvm.x86.ldtilecfg", "void", {"ptr"}, {"@tiles"});
    if (later_rows_) {
      line("%later = alloca ptr, align 8");
      line("store ptr null, ptr %later, align 8");
    }
  } else {
    write_last_rows();
    call("llvm.x86.tilerelease", "void", {}, {});
  }
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

// Counters of inner loops last, so that what does not change in them is one value.
std::string LlvmPrinter::source_address(const SourceRows& rows) {
  std::vector<Term> terms(rows.place.terms.begin(), rows.place.terms.end());
  std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    auto depth = [](Node n) { return n.is(Op::Range) ? range_id(n) : -1; };
    return depth(a.node) < depth(b.node);
  });
  std::string pointer = fmt::format("%p{}", param_number(rows.param));
  const std::string element = llvm_memory_type(rows.param.dtype());
  auto move = [&](const std::string& by) {
    pointer = shared(fmt::format("getelementptr {}, ptr {}, i64 {}", element, pointer, by));
  };
  for (const Term& term : terms)
    if (term.coefficient != 0)
      move(shared(fmt::format("mul nsw i64 {}, {}", wide(term.node), term.coefficient)));
  if (rows.place.constant != 0) move(fmt::format("{}", rows.place.constant));
  return pointer;
}

void LlvmPrinter::read_tile(Node fragment, int tile) {
  const SourceRows* rows = tile_sources_.find(fragment);
  const std::int64_t pitch = rows != nullptr ? rows->pitch * rows->param.dtype().bytes() : kRowBytes;
  const std::vector<std::string> operands{
      fmt::format("{}", tile),
      rows != nullptr ? source_address(*rows) : address(fragment.arg(0), fragment.arg(1)),
      fmt::format("{}", pitch)};
  ask_for_next(fragment, operands[1]);
  auto read = [&](const char* instruction) { call(instruction, "void", {"i8", "ptr", "i64"}, operands); };
  constexpr auto kNear = "llvm.x86.tileloadd64", kPast = "llvm.x86.tileloaddt164";
  const KeptSteps* kept = tile_steps_kept_.find(fragment);
  if (kept == nullptr || kept->steps >= kept->loop.arg(0).hi()) return read(kNear);
  if (kept->steps == 0) return read(kPast);
  const int id = next_block_++;
  line("br i1 {}, label %near{}, label %past{}", emit("icmp slt i64 {}, {}", wide(kept->loop), kept->steps),
       id, id);
  label(fmt::format("near{}", id));
  read(kNear);
  line("br label %read{}", id);
  label(fmt::format("past{}", id));
  read(kPast);
  line("br label %read{}", id);
  label(fmt::format("read{}", id));
}

// Around the start of a loop that adds products up: where the results will be written, and a few lines of
// them asked for in each step, so that they have come when the sums are complete.
bool LlvmPrinter::is_printed(Node index) const {
  return index.is_const() || names_.contains(index) || wide_.contains(index);
}
void LlvmPrinter::locate_results(Node loop) {
  locate_rows(loop);
  const ResultLines* lines = later_rows_ ? nullptr : result_lines_.find(loop);
  if (lines != nullptr && is_printed(lines->place)) result_at_[loop] = address(lines->memory, lines->place);
}
void LlvmPrinter::ask_for_results(Node loop) {
  write_rows(loop);
  const std::string* at = result_at_.find(loop);
  if (at == nullptr) return;
  const ResultLines& lines = *result_lines_.find(loop);
  const std::int64_t steps = loop.arg(0).hi(), rows = (lines.rows + steps - 1) / steps;
  std::string step = emit("mul nsw i64 {}, {}", wide(loop), rows * lines.row_bytes);
  std::string from = emit("getelementptr i8, ptr {}, i64 {}", *at, step);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t line = 0; line < lines.lines; ++line)
      call("llvm.prefetch.p0", "void", {"ptr", "i32", "i32", "i32"},
           {emit("getelementptr i8, ptr {}, i64 {}", from,
                 lines.first + row * lines.row_bytes + line * kLineBytes),
            "1", "3", "1"});
}

// Rows of the sums before, a few in each step.
void LlvmPrinter::locate_rows(Node loop) {
  if (!later_rows_ || later_rows_->loop != loop) return;
  const std::vector<LaterRows::Row>& rows = later_rows_->rows;
  if (!is_printed(later_rows_->place)) {
    later_rows_.reset();
    return;
  }
  for (Node instruction : later_rows_->instead) skipped_[instruction] = 1;
  std::string table;
  for (const LaterRows::Row& row : rows)
    table += fmt::format("{}[2 x i64] [i64 {}, i64 {}]", table.empty() ? "" : ", ", row.from, row.to);
  globals_ += fmt::format("@rows = private constant [{} x [2 x i64]] [{}], align 64\n\n", rows.size(), table);
  rows_at_ = emit("load ptr, ptr %later, align 8");
  rows_any_ = emit("icmp ne ptr {}, null", rows_at_);
}
void LlvmPrinter::write_rows(Node loop) {
  if (!later_rows_ || later_rows_->loop != loop) return;
  const auto rows = static_cast<std::int64_t>(later_rows_->rows.size());
  const std::int64_t steps = loop.arg(0).int_attr(), each = (rows + steps - 1) / steps;
  const int id = next_block_++;
  line("br i1 {}, label %rows{}, label %none{}", rows_any_, id, id);
  label(fmt::format("rows{}", id));
  open_shared();
  std::string first = emit("mul nsw i64 {}, {}", wide(loop), each);
  for (std::int64_t i = 0; i < each; ++i) {
    std::string number = emit("add nsw i64 {}, {}", first, i);
    if (each * steps > rows)
      number = call("llvm.smin.i64", "i64", {"i64", "i64"}, {number, fmt::format("{}", rows - 1)});
    write_row(number, rows_at_);
  }
  close_shared();
  line("br label %none{}", id);
  label(fmt::format("none{}", id));
}
void LlvmPrinter::write_last_rows() {
  if (!later_rows_) return;
  const int id = next_block_++;
  std::string at = emit("load ptr, ptr %later, align 8");
  line("br i1 {}, label %rows{}, label %none{}", emit("icmp ne ptr {}, null", at), id, id);
  label(fmt::format("rows{}", id));
  open_shared();
  for (std::size_t i = 0; i < later_rows_->rows.size(); ++i) write_row(fmt::format("{}", i), at);
  close_shared();
  line("br label %none{}", id);
  label(fmt::format("none{}", id));
}
void LlvmPrinter::write_row(const std::string& number, const std::string& at) {
  const std::vector<Node>& chain = later_rows_->chain;
  auto entry = [&](int which) {
    return emit("load i64, ptr {}, align 8",
                emit("getelementptr [2 x i64], ptr @rows, i64 {}, i64 {}", number, which));
  };
  Node load = chain.front(), stored = chain.back().arg(2);
  std::string from = emit("getelementptr {}, ptr {}, i64 {}", llvm_memory_type(later_rows_->memory.dtype()),
                          value(later_rows_->memory), entry(0));
  name(load, from_memory(load.dtype(), emit("load {}, ptr {}, align {}", llvm_memory_type(load.dtype()), from,
                                            load.dtype().element().bytes())));
  for (std::size_t i = 1; i + 1 < chain.size(); ++i)
    if (!unused_.contains(chain[i])) instruction(chain[i]);
  std::string to =
      emit("getelementptr {}, ptr {}, i64 {}", llvm_memory_type(later_rows_->param.dtype()), at, entry(1));
  line("store {} {}, ptr {}, align {}", llvm_memory_type(stored.dtype()),
       to_memory(stored.dtype(), value(stored)), to, stored.dtype().element().bytes());
}

void LlvmPrinter::ask_for_next(Node fragment, const std::string& at) {
  const NextFragments* next = next_fragments_.find(fragment);
  if (next == nullptr) return;
  std::string from = emit("getelementptr i8, ptr {}, i64 {}", at,
                          emit("mul nsw i64 {}, {}", wide(next->around), next->part));
  for (std::int64_t byte = 0; byte < next->part; byte += kLineBytes)
    call("llvm.prefetch.p0", "void", {"ptr", "i32", "i32", "i32"},
         {emit("getelementptr i8, ptr {}, i64 {}", from, next->ahead + byte), "0", "2", "1"});
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
    if (!tile_last_.contains(node)) return false;
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
  std::string pointer;
  std::int64_t pitch = kRowBytes;
  const DirectResult* direct = later_rows_ ? nullptr : direct_results_.find(node);
  if (direct != nullptr && is_printed(direct->place)) {
    pointer =
        emit("getelementptr i32, ptr {}, i64 {}", address(direct->memory, direct->place), direct->distance);
    pitch = direct->pitch * 4;
    for (Node instruction : direct->instead) skipped_[instruction] = 1;
  } else {
    pointer = address(node.arg(0), node.arg(1));
  }
  call("llvm.x86.tilestored64", "void", {"i8", "ptr", "i64"},
       {fmt::format("{}", tile), pointer, fmt::format("{}", pitch)});
  if (later_rows_ && later_rows_->last_fragment == node)
    line("store ptr {}, ptr %later, align 8", address(later_rows_->param, later_rows_->place));
}

}  // namespace lathe::render
