// Sorting and searching as graphs of loads at computed positions, in the way that is cheapest on the device
// (cost.h). By merging: blocks of a row are sorted by counting, then runs are merged two by two: for every
// place of the merged run a search finds how much of it comes from each, so a pass is one kernel, and a row
// of n needs about log2(n / 32) of them. By digits (radix_sort.h): walks along the row.
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
