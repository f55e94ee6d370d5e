// What one thread computes step by step along an axis, on devices where that beats doing more steps at once.
#pragma once

#include <string>

#include "ir/node.h"
#include "lathe/tensor.h"

namespace lathe {

// Whether the device's threads are few and fast.
bool walks_in_order(const std::string& device);

// Into how many walks one of `steps` is best cut, beside `others` of its kind: enough for the threads there
// may be, none shorter than is worth a start. Depends on extents alone, so results do not depend on the
// machine.
std::int64_t walks_for(double others, std::int64_t steps);

// out[..., i, ...] = x[..., 0, ...] to x[..., i, ...] combined; `unit` changes nothing.
Tensor scan_in_order(Op op, const Tensor& x, std::int64_t axis, Number unit);
// Of those with the same index, which is in [0, groups).
Tensor scan_in_groups(Op op, const Tensor& x, std::int64_t axis, const Tensor& index, std::int64_t groups);
Node scan_gradient(Node g, Node out);

// out[b, v, ...] is x[b, t, ...] combined over the t with index[b, t] == v; the unit where there is none.
Tensor scatter_in_order(Op op, const Tensor& x, const Tensor& index, const Size& rows);

}  // namespace lathe
