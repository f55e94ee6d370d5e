// A value that is added to the sums of a product of panels becomes their initial value, so that the unit does
// the addition.
//
//   before   Store(own, 0, PanelDot(x, y, 0));  o*a + Load(own, 3), for each of its lanes
//   after    Store(own, 0, Vec(.., o*a, ..) + PanelDot(x, y, 0));  Load(own, 3)
#pragma once

#include "ir/node.h"

namespace lathe {

Node start_products(Node kernel);

}  // namespace lathe
