// Sums of a matrix unit that are written while the next ones are computed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/program.h"
#include "ir/walk.h"

namespace lathe::render {

// When its fragments of sums are complete, a kernel converts and stores their rows one by one, and the unit
// waits. The rows are left in the kernel's memory instead, and each step of the next sum writes a few of
// them; the last ones are written at the end.
//
//   before   n: { k: sums += ...;   memory = sums;   32 rows: C[...] = cast(memory row) }
//   after    n: { k: { a row of the n before: C[...] = cast(memory row);   sums += ... }   memory = sums };
//   32 rows
struct LaterRows {
  Node loop;           // of the sum
  Node last_fragment;  // the last store of a fragment to `memory`
  Node memory;         // of the kernel's own
  Node param, place;   // a row is stored `to` elements from element `place`
  struct Row {
    std::int64_t from = 0, to = 0;  // elements
  };
  std::vector<Row> rows;      // as they lie in the result
  std::vector<Node> chain;    // of one row: its load, what is computed from it, its store
  std::vector<Node> instead;  // instructions of all rows
};
// Where the kernel has one such sum, and does nothing else with it.
std::optional<LaterRows> later_rows(const Program& program, const NodeMap<Node>& fragments, int rows,
                                    int columns);

}  // namespace lathe::render
