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

// Users stand behind what they use, so one walk from the end finds all.
void LlvmPrinter::find_indices() {
  const auto want = [&](Node node) {
    if (is_narrow(node) && !node.is_const()) indices_[node] = true;
  };
  for (std::size_t i = program_.code.size(); i-- > 0;) {
    Node node = program_.code[i];
    if (node.is(Op::Load) || node.is(Op::Store)) want(node.arg(1));
    if (node.is(Op::Range)) want(node.arg(0));
    if (indices_.contains(node) && computes_wide(node))
      for (Node arg : node.args()) want(arg);
  }
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
