// Counts the operations and memory traffic of a scheduled kernel, from which GFLOP/s and GB/s are computed.
// Options and lowering may do more work (padding) or less; the count does not change with them.
#pragma once

#include "ir/node.h"

namespace lathe {

struct Work {
  double flops = 0;  // arithmetic on values; index arithmetic is not counted
  double bytes = 0;  // every element that is read or written moves once
};

Work count_work(Node kernel);

}  // namespace lathe
