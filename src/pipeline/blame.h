// Finds the rule that made a malformed node: the compile is repeated while the rule of each node is recorded,
// so that the error names the step and the rule. Costs nothing while nothing is wrong.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/node.h"
#include "ir/walk.h"
#include "rewrite/rewriter.h"

namespace lathe {

class Blame : public RewriteTrace {
 public:
  // A step begins: what is there now is none of its doing.
  void begin_step(std::span<const Node> roots);
  void applied(std::string_view table, std::string_view rule, Node before, Node after) override;

  // "add-zero of index": the rule that made the node in this step or, where it was rebuilt around what a rule
  // made, the one that made its operand. Empty where no rule did.
  std::string rule_of(Node guilty) const;

 private:
  NodeMap<char> there_;
  NodeMap<std::string> made_by_;
};

}  // namespace lathe
