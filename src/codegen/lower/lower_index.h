// Index arithmetic gets a machine type: int32, or int64 if a bound needs it. Floor division becomes the
// machine's truncating division if the numerator is proved not to be negative; otherwise the numerator is
// shifted or the quotient corrected.
//
//   before   Load(x, FloorDiv(r + -3, 4))                        r in [0, 16)
//   after    Load(x, TruncDiv(r + 1, 4) + -1)                    all int32
#pragma once

#include "ir/node.h"

namespace lathe {

Node lower_index(Node kernel);

}  // namespace lathe
