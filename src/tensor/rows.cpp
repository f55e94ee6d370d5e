#include "tensor/rows.h"

#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/reduce_gradient.h"

namespace lathe {

Tensor combine_rows(Op op, const Tensor& values, const Tensor& index, const Size& rows) {
  return make_like(values, scatter(op, node_of(values), node_of(index), size_node(rows)));
}

Tensor count_rows(const Tensor& index, const Size& rows) {
  Tensor one = Tensor::ones(index.shape(), {.dtype = dtypes::int32, .device = index.device()});
  return combine_rows(Op::Add, one, index, rows);
}

Tensor last_of_rows(const Tensor& index, const Size& rows) {
  const Size& values = index.size(1);
  Tensor number = iota_along(values, 1, 2, position_dtype(values), index.device()) + 1;
  return combine_rows(Op::Max, number.expand(index.shape()), index, rows).maximum(0);
}

Node take_gradient(Node g, Node out) {
  Node x = out.arg(0), index = out.arg(1);
  auto shared = static_cast<std::size_t>(out.int_attr());
  std::string device = device_of(out);
  if (device.empty()) device = default_device();
  Shape sizes = shape_of_nodes(x.shape()), of_index = shape_of_nodes(index.shape());
  Size batch = 1, values = 1;
  for (std::size_t i = 0; i < of_index.size(); ++i)
    (i < shared ? batch : values) = (i < shared ? batch : values) * of_index[i];
  Shape flat{batch, values};
  flat.insert(flat.end(), sizes.begin() + static_cast<std::ptrdiff_t>(shared) + 1, sizes.end());
  Tensor number = make_tensor(index, device)
                      .cast(position_dtype(sizes[shared], data_type(index.dtype())))
                      .reshape({batch, values});
  Tensor grad = make_tensor(g, device).reshape(flat);
  const DataType narrow = grad.dtype();
  Tensor sums = combine_rows(Op::Add, grad.cast(sum_accumulator(narrow)), number, sizes[shared]);
  return node_of(sums.cast(narrow).reshape(sizes));
}

Node scatter_gradient(Node g, Node out) {
  Node x = out.arg(0), index = out.arg(1), size = out.arg(2);
  const auto shared = static_cast<std::int64_t>(index.rank()) - 1;
  return grouped_gradient(static_cast<Op>(out.int_attr()), g, x, out,
                          {[=](Op op, Node values) { return scatter(op, values, index, size); },
                           [=](Node per_row) { return take(per_row, index, shared); }});
}

}  // namespace lathe
