// Scans: each element is combined with those before it along an axis.
#pragma once

#include "ir/node.h"
#include "lathe/tensor.h"

namespace lathe {

// out[..., i, ...] = x[..., 0, ...] to x[..., i, ...] combined.
Tensor running(Op op, const Tensor& x, std::int64_t axis);

// What the gradient of a Scan gives its x.
Node scan_gradient(Node g, Node out);

}  // namespace lathe
