// A float32 op that a device computes with its own instruction, and the error bound of that in ulp. It
// replaces the polynomial that all devices share and the `error` column of ops.def.
#pragma once

#include "ir/op.h"

namespace lathe {

struct OpError {
  Op op;
  double ulp;
};

}  // namespace lathe
