// What a float can be, as far as its own expression says: a value that was limited, or compared before it was
// taken. With it a conversion to an integer that cannot overflow is one instruction.
#pragma once

#include "ir/node.h"

namespace lathe {

struct FloatRange {
  double lo = 0, hi = 0;  // of the numbers among its values; infinite where nothing is known
  bool may_be_nan = true;

  // Whether each value, rounded toward zero, is one of a signed integer dtype.
  bool fits(DType integer) const;
};

FloatRange float_range(Node x);

}  // namespace lathe
