// REF for tensor graphs: the value of any node, computed from the meaning of the ops. Small pieces are
// computed at a time and only what several users share is kept, so a matrix product written as expand,
// multiply and sum does not need memory for the product.
#pragma once

#include <span>
#include <vector>

#include "ir/node.h"
#include "ir/walk.h"
#include "reference/array.h"
#include "reference/reference.h"

namespace lathe::reference {

// What the buffers of a graph held before it: version 0 of each.
using BufferContents = NodeMap<Array>;

// A value with the sizes it has under the bindings, elements in row-major order.
struct TensorValue {
  std::vector<std::int64_t> sizes;
  Array data;
};

// The values of the nodes. After(buffer, Store(view, value)) gives the buffer's next version; reading the
// bare buffer gives its first, whatever is stored. Variables take their values from the bindings and from
// Bind nodes of the graph. Throws UserError where a buffer has no contents or a variable no value.
std::vector<TensorValue> tensor_eval(std::span<const Node> nodes, const BufferContents& buffers,
                                     const Bindings& bindings = {});

// An index expression over constants and variables.
std::int64_t index_value(Node expression, const Bindings& bindings);

}  // namespace lathe::reference
