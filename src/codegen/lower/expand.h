// Upcast and Unroll ranges disappear: a value that depends on one becomes that many values, or a vector.
//
//   before   End(Store(out, m*8 + u, Load(x, m*8 + u) * 2), m, u)              u = Upcast 8, four lanes
//   after    End(Store(out, m*8 + 0, Load.f32x4(x, m*8) * Splat(2)), m)
//            End(Store(out, m*8 + 4, Load.f32x4(x, m*8 + 4) * Splat(2)), m)
//
// A value is copied only for the ranges it depends on. An index that is linear in a range is not copied: its
// users add a constant, so that all copies of a load share one address. A reduce over an unrolled range
// combines its elements in order; a reduce over lanes has one vector accumulator per copy, combined at the
// end.
#pragma once

#include "codegen/kernel/lowering.h"

namespace lathe {

Node expand(Node kernel, Lowering& lowering);

}  // namespace lathe
