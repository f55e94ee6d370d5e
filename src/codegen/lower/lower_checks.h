// Checks of indices become arithmetic and a store to the fault cell, an extra int64 param of the kernel that
// is 0 until an index is out of bounds.
//
//   Load(x, Check "gather" (i, 10, when), gate)
//   becomes  bad = when and not 0 <= i < 10
//            Load(After(x, Store(cell, 0, fault 1 with i, bad)), where(0 <= i < 10, i, -1), gate)
//
// The store is ordered before the first access that uses the checked index, so it is in the same loop.
// Lowering::checks lists the meaning of each fault. Runs after the launch is mapped: every thread reports.
#pragma once

#include "codegen/kernel/lowering.h"
#include "ir/node.h"

namespace lathe {

Node lower_checks(Node kernel, Lowering& lowering);

}  // namespace lathe
