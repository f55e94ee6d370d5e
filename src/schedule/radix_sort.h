// Radix sort, the lowest digit first: each pass counts the digits, which gives the position of every element.
// All of it is serial along the row, so it is for devices with few fast threads.
#pragma once

#include "schedule/sort_rows.h"

namespace lathe {

// Sorts whole rows; see sort_rows.
SortedRows sort_by_digits(const GraphValue& keys);

}  // namespace lathe
