// Constant folding of tensors: an elementwise op or a reduce of tensors with one constant value everywhere is
// such a constant, too, and movement ops do not change it.
//   add(expand(2), expand(3)) over (4, 6)   ->   expand(5) over (4, 6)
//   sum(expand(2) over (4, 6), axis 1)      ->   expand(12) over (4, 1)
// Values are those of the simplifying rules, so NaN, infinities and signed zeros are kept.
#pragma once

#include "ir/node.h"
#include "ir/walk.h"
#include "rewrite/rewriter.h"

namespace lathe {

class ConstantFolder {
 public:
  explicit ConstantFolder(const RuleChanges& changes) : changes_(changes) {}
  // The node, or the constant of its shape where it is one. Operands have been through here before.
  Node fold(Node node);

 private:
  const RuleChanges& changes_;
  // The number that every element of a node is, by node.
  NodeMap<Node> number_of_;
};

}  // namespace lathe
