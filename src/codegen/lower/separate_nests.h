// Stores of one kernel that run over the same ranges share their loops. Where two of them would nest a range
// differently, the later one gets ranges of its own, so that every Range is one loop.
//
//   before   End(Store(a, ...), i, j), End(Store(b, ...), j)
//   after    End(Store(a, ...), i, j), End(Store(b, ...), j')
#pragma once

#include "ir/node.h"

namespace lathe {

Node separate_nests(Node kernel);

}  // namespace lathe
