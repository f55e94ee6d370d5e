// The layout of a value in its buffer. Strides follow from the maximum of symbolic sizes, not from the values
// bound to them, so that one buffer works for all sizes: a symbolic shape is a part of the buffer.
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
