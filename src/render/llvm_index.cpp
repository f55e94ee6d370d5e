// Index arithmetic in 64 bits. Addresses are 64 bits wide, and a 32-bit index that is extended at its use
// hides its steps from the code generator, whose analysis of loops then takes most of a compile. So 32-bit
// values that end in an address are computed in 64 bits from the start where they cannot wrap (both then have
// the same value), and the few other uses take the lower half, which costs nothing.
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"

namespace lathe::render {
namespace {

bool is_narrow(Node node) { return node.dtype() == dtypes::Int32; }

bool computes_wide(Node node) {
  switch (node.op()) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul: return never_wraps(node);
    case Op::Max:
    case Op::Min: return true;
    default: return false;
  }
}

}  // namespace

// Users are behind what they use, so one walk from the end finds all: what ends in an address, and the sums
// that nothing but addresses would use, which take their parts instead; lanes likewise, where shuffles take
// them.
void LlvmPrinter::find_indices() {
  NodeMap<bool> used;
  const auto want = [&](Node node) {
    used[node] = true;
    if (is_narrow(node) && !node.is_const()) indices_[node] = true;
  };
  for (std::size_t i = program_.code.size(); i-- > 0;) {
    Node node = program_.code[i];
    if ((node.is(Op::Add) || node.is(Op::Splat) || node.is(Op::Lane)) && !used.contains(node)) {
      unused_[node] = true;
      continue;
    }
    if (const std::vector<Node> from = shuffled_vectors(node); !from.empty()) {
      for (Node vector : from) used[vector] = true;
      continue;
    }
    const bool access = node.is(Op::Load) || node.is(Op::Store) || node.is(Op::Prefetch);
    for (std::size_t a = 0; a < node.arg_count(); ++a)
      if (!access || a != 1) used[node.arg(a)] = true;
    if (access) {
      const IndexParts parts = index_parts(node.arg(1));
      if (parts.scalar) want(parts.scalar);
      if (parts.lanes) used[parts.lanes] = true;
    }
    if (node.is(Op::Range) || (node.is(Op::Table) && node.dtype().lanes == 1)) want(node.arg(0));
    if (indices_.contains(node) && computes_wide(node))
      for (Node arg : node.args()) want(arg);
  }
}

// A value that several may need, printed once in each block and those inside it.
std::string LlvmPrinter::shared(const std::string& text) {
  if (auto found = shared_.find(text); found != shared_.end()) return found->second;
  std::string result = emit("{}", text);
  shared_.emplace(text, result);
  shared_of_block_.back().push_back(text);
  return result;
}

void LlvmPrinter::open_shared() { shared_of_block_.emplace_back(); }

// What was printed inside does not reach what comes after.
void LlvmPrinter::close_shared() {
  for (const std::string& text : shared_of_block_.back()) shared_.erase(text);
  shared_of_block_.pop_back();
}

// Sums are taken apart, so that accesses beside each other share a pointer, and lanes that differ by a
// constant one vector: what is left to add, the addressing modes of the machine do.
std::string LlvmPrinter::address(Node memory, Node index, std::optional<std::int64_t> lane) {
  Node base = base_memory(memory);
  std::string pointer = base.is(Op::Param) ? fmt::format("%p{}", param_number(base)) : value(base);
  const std::string element = llvm_memory_type(base.dtype());
  const IndexParts parts = index_parts(index);
  const auto move = [&](const std::string& by) {
    pointer = shared(fmt::format("getelementptr {}, ptr {}, {}", element, pointer, by));
  };
  if (parts.scalar) move("i64 " + wide(parts.scalar));
  const std::int64_t constant = parts.constant + lane.value_or(0);
  if (constant != 0) move(fmt::format("i64 {}", constant));
  if (parts.lanes && !lane) move(typed(parts.lanes));
  return pointer;
}

bool LlvmPrinter::has_wide(Node node) const {
  return node.is_const() || node.is(Op::Var) || node.dtype().bits() == 64 || wide_.contains(node);
}

// The value of a 32- or 64-bit node as i64.
std::string LlvmPrinter::wide(Node node) {
  if (!is_narrow(node)) return value(node);
  if (const std::string* found = wide_.find(node)) return *found;
  if (node.is_const()) return fmt::format("{}", node.int_attr());
  if (node.is(Op::Var))
    for (std::size_t i = 0; i < program_.variables.size(); ++i)
      if (program_.variables[i]->text() == node.text()) return fmt::format("%n{}", i);
  return emit("sext i32 {} to i64", value(node));
}

bool LlvmPrinter::print_index(Node node) {
  if (!indices_.contains(node) || !computes_wide(node)) return false;
  std::string x = wide(node.arg(0)), y = wide(node.arg(1));
  if (node.is(Op::Max) || node.is(Op::Min))
    wide_[node] = call(node.is(Op::Max) ? "llvm.smax.i64" : "llvm.smin.i64", "i64", {"i64", "i64"}, {x, y});
  else
    wide_[node] = emit("{} nsw i64 {}, {}",
                       node.is(Op::Add)   ? "add"
                       : node.is(Op::Sub) ? "sub"
                                          : "mul",
                       x, y);
  return true;
}

// What was computed in 32 bits and ends in an address is extended once, where it is made.
void LlvmPrinter::extend_index(Node node) {
  if (!indices_.contains(node) || node.is(Op::Range) || node.is(Op::Special)) return;
  wide_[node] = emit("sext i32 {} to i64", *names_.find(node));
}

}  // namespace lathe::render
