// Sorting by digits, the lowest first: each pass counts the digits, and every element then knows its place.
// All of it walks along the row, so it is for devices where that is quick.
#pragma once

#include "schedule/sort_rows.h"

namespace lathe {

// As sort_rows, all of the row.
SortedRows sort_by_digits(const GraphValue& keys);

}  // namespace lathe
