// The scalar ops as functions over lanes of cells, one per op and element type, expanded from the `value`
// column of ops.def: looked up once when code is made, so that running it need not look at dtypes.

#pragma once

#include "ir/op.h"
#include "reference/array.h"

namespace lathe::reference {

// out[l] = op(x[l], y[l], z[l]) for each lane; `out` may be one of the operands.
using ScalarFn = void (*)(Cell* out, const Cell* x, const Cell* y, const Cell* z, int lanes);

// The function of a scalar op on operands of a dtype (the second operand's for Where). Throws InternalError
// where the op is not defined on it.
ScalarFn scalar_function(Op op, DType operand);

// HReduce: all lanes combined, the upper half onto the lower half again and again; lane by lane from lane 0
// where the count is no power of two. `scratch` has room for `lanes` cells.
Cell reduce_lanes(ScalarFn fn, const Cell* x, int lanes, Cell* scratch);

}  // namespace lathe::reference
