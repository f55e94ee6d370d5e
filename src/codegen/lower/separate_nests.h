// Stores of one kernel over the same ranges share their loops. If two of them would nest a range differently,
// the later one gets new ranges, so that every Range is exactly one loop.
//
//   before   End(Store(a, ...), i, j), End(Store(b, ...), j)
//   after    End(Store(a, ...), i, j), End(Store(b, ...), j')
#pragma once

#include "ir/node.h"

namespace lathe {

Node separate_nests(Node kernel);

}  // namespace lathe
