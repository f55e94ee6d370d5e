// Joins ranges of a product, so that its rows, columns and steps are one range each: a convolution's columns
// are the pixels of all images, its steps the channels and positions of a window.
#pragma once

#include <optional>
#include <vector>

#include "codegen/choose/kernel_facts.h"
#include "ir/node.h"
#include "lathe/options.h"
#include "target/target.h"

namespace lathe {

struct JoinedSides {
  std::vector<Opt> joins;
  Node kernel;   // after them
  Node columns;  // its range along which results are neighbours in memory
};

// Nothing where there is nothing to join, or where a side cannot be. The range that moves a factor by one
// element is last in its side, so that rows of a panel stay neighbours in memory.
std::optional<JoinedSides> join_sides(Node kernel, const KernelFacts& facts, const Target& target);

}  // namespace lathe
