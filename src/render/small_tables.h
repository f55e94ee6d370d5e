// A float made of four bits, such as a quantised weight: float(bits + c). Machines that pick lanes of a
// vector by the lower four bits of an index read it from a table of sixteen, in place of a mask, an addition
// and a conversion. Whole numbers of that size are exact, so the result is the same.
#pragma once

#include <cstdint>

#include "ir/node.h"

namespace lathe::render {

struct SmallTable {
  Node index;              // an integer whose lower four bits count, or null: the cast is none of these
  std::int64_t first = 0;  // what the bits 0000 stand for
};

SmallTable small_table_of(Node cast);

}  // namespace lathe::render
