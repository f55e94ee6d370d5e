// Locals of one element are values: the printer follows which one each holds, and joins them (phi) where a
// loop carries one from step to step or where a branch may have changed it. LLVM would find the same by a
// pass over loads and stores, which takes longer than printing and reading fewer lines.
#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"

namespace lathe::render {
namespace {

bool is_access(Node node) { return node.is(Op::Load) || node.is(Op::Store); }

// What a loop or a branch does to registers.
struct Block {
  Node node;
  NodeMap<bool> assigned;  // by something in it
  NodeMap<bool> settled;   // by something that surely runs
  NodeMap<bool> awaited;   // read, perhaps, before it is assigned
};

bool surely_runs(Node block) { return block.is(Op::Range) && block.arg(0).lo() >= 1; }

void read(std::vector<Block>& open, Node local) {
  for (std::size_t i = open.size(); i-- > 0;) {
    if (open[i].settled.contains(local)) return;
    open[i].awaited[local] = true;
  }
}

}  // namespace

void LlvmPrinter::find_registers() {
  for (const LocalMemory& memory : layout_locals(program_, kStackBytes).memories) {
    Node define = memory.define;
    if (memory.scratch_offset < 0 && memory_size(define) == 1 && !define.dtype().is_bool() &&
        !tiles_.contains(define))
      held_[define] = "poison";
  }
  std::vector<Block> open(1);
  for (Node node : program_.code) {
    if (node.is(Op::Range) || node.is(Op::If)) open.push_back({node, {}, {}, {}});
    if (node.is(Op::End) || node.is(Op::EndIf)) {
      Block done = std::move(open.back());
      open.pop_back();
      for (const auto& [local, unused] : done.assigned) {
        open.back().assigned[local] = true;
        if (done.node.is(Op::Range) && done.awaited.contains(local)) carried_[done.node].push_back(local);
        if (!surely_runs(done.node)) {
          read(open, local);
          changed_[done.node].push_back(local);
        } else if (done.settled.contains(local)) {
          open.back().settled[local] = true;
        }
      }
    }
    if (!is_access(node)) continue;
    Node define = base_memory(node.arg(0));
    if (!held_.contains(define)) continue;
    if (node.is(Op::Load) || node.arg_count() > 3) read(open, define);
    if (node.is(Op::Store)) open.back().assigned[define] = open.back().settled[define] = true;
  }
}

void LlvmPrinter::load_register(Node node) {
  check_internal(node.dtype() == base_memory(node.arg(0)).dtype() && node.arg_count() == 2, "llvm_text",
                 "part of a register is read");
  name(node, *held_.find(base_memory(node.arg(0))));
}

void LlvmPrinter::store_register(Node node) {
  std::string& held = held_[base_memory(node.arg(0))];
  Node stored = node.arg(2), gate = node.arg_count() > 3 ? node.arg(3) : Node();
  check_internal(stored.dtype() == base_memory(node.arg(0)).dtype(), "llvm_text",
                 "part of a register is written");
  held = gate ? emit("select {}, {}, {} {}", typed(gate), typed(stored), llvm_type(stored.dtype()), held)
              : value(stored);
}

// A register that a loop carries is from here on what the step before left, which is known when it closes.
void LlvmPrinter::open_registers(Node node, OpenBlock& block) {
  if (const std::vector<Node>* changed = changed_.find(node))
    for (Node local : *changed) block.changed.push_back({local, held_[local], ""});
  if (const std::vector<Node>* carried = carried_.find(node))
    for (Node local : *carried) {
      std::string joined = fresh();
      block.carried.push_back({local, held_[local], joined});
      held_[local] = std::move(joined);
    }
}

// The lines at the head of a loop, printed when its last block is known.
std::string LlvmPrinter::carried_lines(const OpenBlock& block) const {
  std::string out;
  for (const Joined& one : block.carried)
    fmt::format_to(std::back_inserter(out), "  {} = phi {} [ {}, %{} ], [ {}, %{} ]\n", one.name,
                   llvm_type(one.local.dtype()), one.before, block.before, *held_.find(one.local), block_);
  return out;
}

// Behind a block that may not have run; `last` is the label of the block it ended in.
void LlvmPrinter::join_changed(const OpenBlock& block, const std::string& last) {
  for (const Joined& one : block.changed) {
    std::string& held = held_[one.local];
    held = emit("phi {} [ {}, %{} ], [ {}, %{} ]", llvm_type(one.local.dtype()), one.before, block.before,
                held, last);
  }
}

}  // namespace lathe::render
