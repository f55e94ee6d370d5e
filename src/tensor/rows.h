// Combining values by row: for each of t values of a batch, `index` (batch, t) has the number of its row.
// Scheduling chooses how they are combined (schedule/expand_scans.h), never with atomics, so results do not
// depend on timing. Numbers outside the `rows` rows belong to no row.
#pragma once

#include "ir/node.h"
#include "lathe/tensor.h"

namespace lathe {

// (batch, t, rest...) combined to (batch, rows, rest...); rows without values get the unit of the op.
Tensor combine_rows(Op op, const Tensor& values, const Tensor& index, const Size& rows);
// (batch, rows) int32: values of each row.
Tensor count_rows(const Tensor& index, const Size& rows);
// (batch, rows): the last value of each row, counted from 1; 0 where there is none.
Tensor last_of_rows(const Tensor& index, const Size& rows);

// What the gradients of a Take and a Scatter give their x.
Node take_gradient(Node g, Node out);
Node scatter_gradient(Node g, Node out);

}  // namespace lathe
