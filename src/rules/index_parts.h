// An index taken apart as addresses take it, so that accesses beside each other are seen to be so.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/node.h"

namespace lathe {

// Whether a signed operation surely does not overflow, by its bounds.
bool never_wraps(Node node);

// (scalar + constant) + lanes; null where there is no such part.
struct IndexParts {
  Node scalar;
  std::int64_t constant = 0;
  Node lanes;
};
IndexParts index_parts(Node index);

// The lanes of a vector of constants; none where it is no such vector, or null.
std::vector<std::int64_t> constant_lanes(Node lanes);

// Whether two accesses of so many neighbours each surely touch different elements of one memory: they are at
// one place, a constant distance apart.
bool are_apart(Node index, std::int64_t lanes, Node other, std::int64_t other_lanes);

}  // namespace lathe
