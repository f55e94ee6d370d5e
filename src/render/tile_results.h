// How the sums of a matrix unit's fragments reach memory.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"
#include "ir/walk.h"

namespace lathe::render {

// What is written when the sums of a loop are complete, where the cache does not hold the whole result: rows
// of a few cache lines. A store that has to wait for its line holds up the next products.
struct ResultLines {
  Node memory, place;      // element `place` of the memory is the first
  std::int64_t first = 0;  // bytes from there to the first line
  std::int64_t rows = 0, row_bytes = 0, lines = 0;
};
// By loop.
NodeMap<ResultLines> result_lines(const Program& program, const NodeMap<Node>& fragments, std::int64_t cache);

// A fragment of sums that is written to memory of the kernel's own, read from there row by row and stored as
// it is: the unit can write its rows where they belong.
struct DirectResult {
  Node memory, place;                    // its first element is `place` + distance
  std::int64_t distance = 0, pitch = 0;  // in elements; a row begins `pitch` after the one before
  std::vector<Node> instead;             // loads and stores that are not needed then
};
// By the store of the fragment; `rows` of `columns` elements.
NodeMap<DirectResult> direct_results(const Program& program, int rows, int columns);

}  // namespace lathe::render
