// Where the fragments that a matrix unit reads should be in the caches.
#pragma once

#include <cstdint>

#include "ir/program.h"
#include "ir/walk.h"

namespace lathe::render {

// Of the two fragments of a product one is the same in the next step of the loop around the sum, the other is
// read once and would push the first out of the nearest cache: it is read past that cache. Where the first
// ones do not fit there either, some of them stay and the others are read past it too.
//
// The first steps of a loop: what they read stays in the nearest cache, what the others read goes past it.
struct KeptSteps {
  Node loop;
  std::int64_t steps = 0;
};
// By the loads of fragments; `fragments` holds all of them.
NodeMap<KeptSteps> kept_steps(const Program& program, const NodeMap<Node>& fragments, std::int64_t cache);

// What is read again in each step of the loop around the sum comes from far away when the loop around that
// one takes its next step, where the second cache does not hold all of its panel. Each step of the sum
// therefore asks for a part of what the same step will read then.
struct NextFragments {
  Node around;             // the loop whose steps share the lines out
  std::int64_t ahead = 0;  // bytes from a fragment to the one that will be read instead
  std::int64_t part = 0;   // bytes for each step of `around`
};
// By the first of the fragments that a step reads, which follow each other.
NodeMap<NextFragments> next_fragments(const Program& program, const NodeMap<Node>& fragments,
                                      std::int64_t cache);

}  // namespace lathe::render
