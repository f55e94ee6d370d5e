// Products of many floats, by lane. A device may multiply them in any order, and the order decides whether an
// intermediate overflows or underflows: 1e30 * 1e30 * 1e-30 is 1e30 or infinite. So the largest and the
// smallest possible product of some of the elements are tracked with the running value.
#pragma once

#include "reference/lane_ops.h"

namespace lathe::reference {

// The step that multiplies by one more element, and the one after the last.
LaneFn product_step(bool pairs);
void product_end(const LaneStep& step);

}  // namespace lathe::reference
