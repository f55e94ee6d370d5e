// Contents for buffers whose real ones are not known: integers that most programs accept.
#pragma once

#include <cstdint>

#include "ir/node.h"
#include "reference/array.h"

namespace lathe::investigate {

// Floats from -4 to 4, whose sums are exact in any order; integers 0 and 1, which are indices of most tables.
// Each number gives others.
reference::Array small_integers(Node buffer, std::uint64_t number);

}  // namespace lathe::investigate
