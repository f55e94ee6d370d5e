// Checks of indices become arithmetic and a store to the fault cell, one more param of the kernel: an int64
// that is 0 until an index is outside.
//
//   Load(x, Check "gather" (i, 10, when), gate)
//   becomes  bad = when and not 0 <= i < 10
//            Load(After(x, Store(cell, 0, fault 1 with i, bad)), where(0 <= i < 10, i, -1), gate)
//
// The store hangs on the memory of the first access the check's value reaches, so it stands in the same loop.
// What a fault means is listed in Lowering::checks. Comes after the launch is mapped: every thread reports.
#pragma once

#include "codegen/kernel/lowering.h"
#include "ir/node.h"

namespace lathe {

Node lower_checks(Node kernel, Lowering& lowering);

}  // namespace lathe
