// Rebuilds a program's list, for steps that move, replace or remove instructions; references to them are
// updated.
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
  // A new instruction whose operands are named already; constants are not listed, nor is a value again that
  // is known in an open scope.
  Node put(Node node);
  // An integer of another width, where it is not of that one.
  Node sized(Node value, DType dtype);
  // Puts an instruction in place of an old one.
  void replace(Node node, Node by);
  // Leaves an instruction out: nothing needs its value, and what waits for it waits for less.
  void drop(Node node) { gone_.try_emplace(node); }
  // Whether a value is in a scope that is open here, or needs no place in the list.
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

// New values of a list that is written again, each as early as it can be: after the last of the loops,
// launch indices and loads that it is made of. There it is known to all that may list the same value later
// on.
class EarlyValues {
 public:
  explicit EarlyValues(const Program& program);

  // The value will be listed, and what it is made of.
  Node want(Node value);
  // Lists what can be before the first instruction, and right after one of the old list.
  void put_first(Relist& list) const;
  void put_after(Node instruction, Relist& list) const;

 private:
  std::size_t place(Node value);

  NodeMap<std::size_t> places_;            // from 1 on: of what values are made of, and theirs
  std::vector<std::vector<Node>> values_;  // by place
};

}  // namespace lathe
