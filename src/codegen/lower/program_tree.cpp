#include "codegen/lower/program_tree.h"

namespace lathe {

ProgramTree::ProgramTree(const Program& program) {
  blocks_.emplace_back();
  int here = 0;
  const auto items_here = [&]() -> std::vector<Item>& {
    return blocks_[static_cast<std::size_t>(here)].items;
  };
  for (Node n : program.code) {
    if (n.is(Op::End) || n.is(Op::EndIf)) {
      here = parent(here);
    } else if (n.is(Op::Range) || n.is(Op::If)) {
      const int inside = static_cast<int>(blocks_.size());
      items_here().push_back({n, inside});
      blocks_.push_back({here, n, {}});
      here = inside;
    } else if (!n.is(Op::After) && !n.is(Op::Sink)) {
      items_here().push_back({n, -1});
    }
  }
}

bool is_operand_only(Node n) {
  return n.is(Op::Const) || n.is(Op::Param) || n.is(Op::Var) || n.is(Op::Special) || n.is(Op::Define) ||
         n.is(Op::Iota);
}

}  // namespace lathe
