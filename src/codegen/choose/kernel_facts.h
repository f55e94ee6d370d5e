// The facts about a kernel that the heuristic uses: its ranges, the strides of every load and store along
// each of them, and whether its largest reduce is a sum of products.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ir/node.h"
#include "ir/op.h"

namespace lathe {

// A step of a range moves the index by a number of elements that is not fixed.
inline constexpr std::int64_t kUneven = std::numeric_limits<std::int64_t>::max();

struct RangeFacts {
  Node range;
  RangeKind kind = RangeKind::Global;
  std::int64_t extent = 1;  // the most it can be
  bool constant = true;
  bool ragged = false;  // another range's extent depends on it, or its own on others
  bool carries_tuple = false;
};

struct AccessFacts {
  Node node;  // Load or Store, of a param or of memory inside the kernel
  bool is_store = false, gated = false;
  std::vector<std::int64_t> strides;  // by range, in elements; 0 where it does not depend on it
  double times = 1;                   // iterations of the ranges it depends on
};

struct KernelFacts {
  std::vector<RangeFacts> ranges;  // in list order
  std::vector<AccessFacts> accesses;
  Node reduce;      // the one with most steps, or null
  Node factors[2];  // of its element, where that is a product and the reduce a sum
  int reduces = 0;
  int as_long = 0;              // reduces that have as many steps as the one with most
  bool sums_in_output = false;  // the one store could hold partial results: right dtype, and never read
  double work = 0;              // scalar steps, memory included
  int element_bytes = 4;        // the widest value the inner loop works on

  double extent_product(RangeKind kind) const;
  bool depends(Node node, std::size_t range) const;
};

KernelFacts kernel_facts(Node kernel);

}  // namespace lathe
