// Where a matrix unit can read fragments without a copy.
#pragma once

#include <cstdint>

#include "ir/program.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe::render {

// Rows of a fragment in a param, evenly apart.
struct SourceRows {
  Node param;
  Linear place;            // of the first row's first element
  std::int64_t pitch = 0;  // elements from one row to the next
};

// A panel that is filled by copying rows as they lie, and read by the unit alone, only brings the rows of a
// fragment together. The unit reads rows that are apart just as well where they stay in the nearest cache:
// all of them fit there, and they do not share a few of its places.
//
//   before   k', r: panel[k'*256 + r*16 ...] = A[(m*16 + r)*K + k'*32 ...];   n: k: fragment at panel[k*256]
//   after    n: k: fragment at A[m*16*K + k*32], rows K apart
struct TileSources {
  NodeMap<SourceRows> rows;  // by the loads of fragments
  NodeMap<char> copies;      // instructions that are not needed then
};
// `fragments` holds all loads of fragments, each `rows` of `columns` words.
TileSources tile_sources(const Program& program, const NodeMap<Node>& fragments, int rows, int columns,
                         std::int64_t cache);

}  // namespace lathe::render
