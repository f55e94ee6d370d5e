// What computed buffers were computed from. A value that requires no gradient gives its expression up when it
// is realized; a gradient with respect to something behind it would be zeros, and this tells that it is not.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/walk.h"

namespace lathe {

// The storages that are alive, by their numbers in ascending order, and which of them hold a value that is
// not in memory: an expression has no other sign of them.
struct LiveStorages {
  std::vector<std::uint64_t> numbers;
  NodeMap<std::vector<std::uint64_t>> by_value;
};

// `buffer` now holds the value of `expression`, which nobody keeps.
void note_given_up(Node buffer, Node expression, const LiveStorages& live);

// Whether `buffer` was computed from floats in `memory` (which may be null), or from the value of the
// storage, by however many steps.
bool was_computed_from(Node buffer, Node memory, std::uint64_t storage);

}  // namespace lathe
