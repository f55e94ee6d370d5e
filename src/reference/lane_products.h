// Products of many floats, by lane. A device multiplies them in an order of its own, and the order decides
// what overflows or vanishes on the way: 1e30 * 1e30 * 1e-30 is 1e30 or infinite. So beside the running value
// goes what the largest and the smallest product of some of the elements would be.
#pragma once

#include "reference/lane_ops.h"

namespace lathe::reference {

// The step that multiplies by one more element, and the one after the last.
LaneFn product_step(bool pairs);
void product_end(const LaneStep& step);

}  // namespace lathe::reference
