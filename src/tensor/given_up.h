// Remembers the expressions of realized buffers. A value that requires no gradient drops its expression when
// it is realized, so a gradient with respect to one of its inputs would silently be zero; this detects that
// case.
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
  // What requires a gradient: values computed from it keep their expressions, unless they are data on
  // purpose.
  std::vector<std::uint64_t> asked;
  std::vector<std::int64_t> asked_buffers;
};

// Records that `buffer` holds the value of `expression`, which is dropped.
void note_given_up(Node buffer, Node expression, const LiveStorages& live);

// Whether it was noted of this buffer.
bool is_given_up(Node buffer);

// Whether `buffer` was computed from floats in `memory` (which may be null), or from the value of the
// storage, by however many steps.
bool was_computed_from(Node buffer, Node memory, std::uint64_t storage);

}  // namespace lathe
