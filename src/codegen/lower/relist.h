// A program's list written anew, for steps that move, replace or leave out instructions: whatever refers to
// one of them follows.
#pragma once

#include <vector>

#include "ir/program.h"
#include "ir/walk.h"

namespace lathe {

class Relist {
 public:
  explicit Relist(Program program);

  // The instructions as they were, and where the next one goes.
  const std::vector<NodeRef>& before() const { return before_; }
  const Program& program() const { return program_; }

  // What a node of the old list, or memory after its effects, is now.
  Node named(Node node) const;
  // The same instruction over what its operands are now.
  void keep(Node node);
  // A new instruction whose operands are named already; a value that is known in an open scope is not listed
  // again.
  Node put(Node node);
  // An integer of another width, where it is not of that one.
  Node sized(Node value, DType dtype);
  // Puts an instruction in place of an old one.
  void replace(Node node, Node by);
  // Leaves an instruction out: nothing needs its value, and what waits for it waits for less.
  void drop(Node node) { gone_.try_emplace(node); }
  // Whether a value stands in a scope that is open here, or needs no place in the list.
  bool is_known(Node value) const;

  Program take() { return std::move(program_); }

 private:
  bool is_listed(Node value) const;

  Program program_;
  std::vector<NodeRef> before_;
  NodeMap<Node> names_;
  NodeMap<char> gone_;
  std::vector<NodeMap<char>> known_{1};  // values by open scope
};

}  // namespace lathe
