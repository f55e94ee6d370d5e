// A program as a tree: blocks of instructions, each the body of a loop or a branch. For steps that move or
// inspect whole blocks.
#pragma once

#include <vector>

#include "ir/program.h"

namespace lathe {

class ProgramTree {
 public:
  struct Item {
    Node node;       // an instruction, or what opens a block
    int block = -1;  // that block
  };

  explicit ProgramTree(const Program& program);

  // Block 0 is the program itself.
  const std::vector<Item>& items(int block) const { return blocks_[static_cast<std::size_t>(block)].items; }
  int parent(int block) const { return blocks_[static_cast<std::size_t>(block)].parent; }
  // The Range or If of a block; null for block 0.
  Node opener(int block) const { return blocks_[static_cast<std::size_t>(block)].opener; }

  // Visits an item's node and everything inside of it, in order.
  template <class Visit>
  void each_inside(const Item& item, Visit visit) const {
    visit(item.node);
    if (item.block < 0) return;
    for (const Item& inner : items(item.block)) each_inside(inner, visit);
  }

 private:
  struct Block {
    int parent = -1;
    Node opener;
    std::vector<Item> items;
  };
  std::vector<Block> blocks_;
};

// Operands that are no instructions of a list.
bool is_operand_only(Node node);

}  // namespace lathe
