// A float32 op that a device does by an instruction of its own, and how far its result may be from the exact
// one, in ulp: instead of the polynomial that all devices share and the `error` column of ops.def.
#pragma once

#include "ir/op.h"

namespace lathe {

struct OpError {
  Op op;
  double ulp;
};

}  // namespace lathe
