// How a value lies in the buffer it is stored in. Strides are fixed by the largest sizes its variables allow,
// whatever they are bound to, so that one buffer serves all values: a symbolic shape is a cut of the whole.
#pragma once

#include <cstdint>
#include <span>

#include "ir/node.h"

namespace lathe {

// A size expression with its bound variables free again.
Node unbound(Node size);

// How many elements the buffer of a value of this shape has.
std::int64_t stored_size(std::span<const Node> shape);

// Such a buffer, or a version of it, read as the value.
Node view_of(Node buffer, std::span<const Node> shape);

}  // namespace lathe
