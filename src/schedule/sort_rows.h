// Sorting and searching as graphs of loads at computed positions, with the cheapest method for the device
// (cost.h). Merge sort: blocks of a row are sorted by counting, then runs are merged pairwise. For every
// position of the merged run a binary search finds how many elements come from each run, so a pass is one
// kernel, and a row of n elements needs about log2(n / 32) of them. By digits (radix_sort.h): serial scans
// along the row.
#pragma once

#include <cstdint>

#include "schedule/graph_value.h"

namespace lathe {

struct SortedRows {
  GraphValue keys,
      order;  // (rows, keep): ascending, and where each stood, int32. Equal keys keep their order.
};
// The first `keep` of each row of integers (rows, n), sorted; n is known.
SortedRows sort_rows(const GraphValue& keys, std::int64_t keep, bool fast_threads);

// How many keys of the row are less, for every query: (rows, n) ascending and (rows, q) give (rows, q).
GraphValue count_less(const GraphValue& keys, const GraphValue& queries);

}  // namespace lathe
