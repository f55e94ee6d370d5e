// Parallel ranges become launch indices: Global to g0..g2, Local and Group to l0..l2, Thread to t. If there
// are more ranges than launch dimensions, or a limit is exceeded, several ranges share one index and are
// recovered by division. On a target without groups, Global ranges are ordinary loops.
//
//   before   End(Store(out, m*8 + n, v), m, n)        m = Global 4, n = Global 8, a GPU
//   after    Store(out, g1*8 + g0, v), launch 8 x 4
#pragma once

#include "codegen/kernel/lowering.h"

namespace lathe {

Node map_parallel(Node kernel, Lowering& lowering);

}  // namespace lathe
