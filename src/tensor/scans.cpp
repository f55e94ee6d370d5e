#include "tensor/scans.h"

#include "tensor/impl.h"
#include "tensor/rows.h"

namespace lathe {

Tensor running(Op op, const Tensor& x, std::int64_t axis) { return make_like(x, scan(op, node_of(x), axis)); }

namespace {

// x summed up from the end of the axis.
Tensor sums_from_end(const Tensor& x, std::int64_t axis) {
  return running(Op::Add, x.flip({axis}), axis).flip({axis});
}

// d(out_i)/dx_j is out_i / x_j, except where there is a 0: the first of them gets the products without it, up
// to the next one; what comes after it gets nothing, and gives nothing to what is before, whatever its own
// gradient is.
Tensor product_gradient(const Tensor& g, const Tensor& x, const Tensor& out, std::int64_t axis) {
  Tensor zero = x == 0, zeros = running(Op::Add, zero.cast(dtypes::int32), axis);
  Tensor first = zero & (zeros == 1);
  Tensor without = running(Op::Mul, first.where(1, x), axis);
  Tensor at_first = first.where(sums_from_end((zeros == 1).where(g * without, 0), axis), 0);
  Tensor before = zeros == 0;
  return before.where(sums_from_end(before.where(g * out, 0), axis) / zero.where(1, x), at_first);
}

// All to the element that was the extreme, the last of equals.
Tensor extreme_gradient(const Tensor& g, const Tensor& x, const Tensor& out, std::int64_t axis) {
  Tensor line = iota_along(x.size(axis), axis, x.ndim(), dtypes::int32, x.device());
  Tensor at = running(Op::Max, (x == out).where(line, 0), axis).movedim(axis, -1);
  Shape shape = at.shape();
  Size batch = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) batch = batch * shape[i];
  const Shape flat{batch, shape.back()};
  Tensor shares = g.movedim(axis, -1).reshape(flat).cast(sum_accumulator(g.dtype()));
  return combine_rows(Op::Add, shares, at.reshape(flat), shape.back())
      .cast(g.dtype())
      .reshape(shape)
      .movedim(-1, axis);
}

}  // namespace

Node scan_gradient(Node g, Node out) {
  if (out.arg_count() > 1) return Node();
  std::string device = device_of(out);
  if (device.empty()) device = default_device();
  const std::int64_t axis = out.ints()[1];
  Tensor grad = make_tensor(g, device), x = make_tensor(out.arg(0), device), y = make_tensor(out, device);
  switch (reduce_op(out)) {
    case Op::Add: return node_of(sums_from_end(grad, axis));
    case Op::Mul: return node_of(product_gradient(grad, x, y, axis));
    case Op::Max:
    case Op::Min: return node_of(extreme_gradient(grad, x, y, axis));
    default: return Node();
  }
}

}  // namespace lathe
