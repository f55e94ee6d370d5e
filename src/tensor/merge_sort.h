// Sorting and searching as graphs of loads at computed positions. Blocks of a row are sorted by counting,
// then runs are merged two by two: for every place of the merged run a search finds how much of it comes from
// each, so a pass is one kernel, and a row of n needs about log2(n / 32) of them.
#pragma once

#include <cstdint>

#include "lathe/tensor.h"

namespace lathe {

// x[b, index[b, ...]]: rows of x (rows, n) at positions of their own; 0 where one is outside.
Tensor take_in_rows(const Tensor& x, const Tensor& index);

struct SortedRows {
  Tensor keys, order;  // (rows, keep): ascending, and where each stood, int32. Equal keys keep their order.
};
// The first `keep` of each row of integers (rows, n), sorted.
SortedRows sort_rows(const Tensor& keys, std::int64_t keep);

// How many keys of the row are less, for every query: (rows, n) ascending and (rows, q) give (rows, q).
Tensor count_less(const Tensor& keys, const Tensor& queries);

// Integers in the order that sort() promises of x: NaN is greatest, and the two zeros are equal.
Tensor sort_keys(const Tensor& x, bool descending);

}  // namespace lathe
