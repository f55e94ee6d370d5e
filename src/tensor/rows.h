// Values that belong to rows: for each of t values of a batch the number of the row it goes to. How they are
// combined is scheduling's choice (schedule/expand_walks.h); never with atomics, so results do not depend on
// timing. `index` is (batch, t), integers: numbers of `rows` rows; numbers outside belong to no row.
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
