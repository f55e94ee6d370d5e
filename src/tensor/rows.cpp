#include "tensor/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/merge_sort.h"
#include "tensor/reduce_gradient.h"
#include "tensor/walks.h"

namespace lathe {
namespace {

// Comparing costs a step for every row, value and element beside it. Sorting costs some hundred steps a
// value, a search a row, and a dozen kernels to start, each worth this many steps.
bool worth_sorting(double batch, double rows, double values, double width) {
  constexpr double kKernel = 1 << 14, kSortStep = 6;
  const double depth = std::log2(values + 2);
  const double compare = batch * rows * values * width;
  const double sort = batch * (values * kSortStep * depth * depth + rows * kSortStep * depth + rows * width) +
                      (depth + 4) * kKernel;
  return sort < compare;
}

// Rows that are wide and more than a cache holds: from lists each is written once, which saves more than
// sorting costs.
bool written_once(const Size& rows, double width) {
  constexpr double kWide = 32, kLarge = 1 << 21;
  return width >= kWide && static_cast<double>(rows.max()) * width >= kLarge;
}

double size_as_number(const Size& s) { return static_cast<double>(s.max()); }

Tensor flat_rows(const Tensor& x) {
  Shape shape = x.shape();
  shape[1] = shape[0] * shape[1];
  shape.erase(shape.begin());
  return x.reshape(shape);
}

}  // namespace

Rows::Rows(const Tensor& index, const Size& rows, double width) : index_(index), rows_(rows) {
  const Size batch = index.size(0), values = index.size(1);
  const bool known = !batch.is_symbolic() && !values.is_symbolic() && !rows.is_symbolic();
  walks_ = rows.max() > 0 && walks_in_order(index.device()) && !(known && written_once(rows, width));
  if (walks_ || !known || values.value() == 0 || rows.value() == 0 || batch.value() == 0) return;
  if (!worth_sorting(size_as_number(batch), size_as_number(rows), size_as_number(values), width)) return;
  const std::int64_t b = batch.value(), t = values.value(), n = rows.value();
  if (std::max(b * t, b * (n + 1)) > std::numeric_limits<std::int32_t>::max()) return;
  Tensor inside = (index >= 0) & (index < n);
  SortedRows sorted = sort_rows(inside.where(index, n).maximum(0).minimum(n).cast(dtypes::int32), t);
  Tensor queries = iota_along(n + 1, 1, 2, dtypes::int32, index.device()).expand({batch, Size(n + 1)});
  Tensor first = iota_along(batch, 0, 2, dtypes::int32, index.device());
  Tensor bounds = (count_less(sorted.keys, queries) + first * t).contiguous();
  Tensor begin = bounds.shrink({{0, batch}, {0, n}}), end = bounds.shrink({{0, batch}, {1, n + 1}});
  lists_ = Lists{inside.where(index + first * n, -1).cast(dtypes::int32).flatten(),
                 (sorted.order + first * t).contiguous().flatten(), begin.flatten(), end.flatten()};
}

Tensor Rows::hits() const {
  return index_.unsqueeze(1) == iota_along(rows_, 1, 3, index_.dtype(), index_.device());
}

Tensor Rows::walked(Op op, const Tensor& values) const {
  constexpr double kStepsPerRow = 4;
  const Size batch = index_.size(0), t = index_.size(1);
  Tensor index = index_, x = values;
  Shape out = values.shape();
  out[1] = rows_;
  std::int64_t parts = 1;
  if (!batch.is_symbolic() && !t.is_symbolic()) parts = walks_for(size_as_number(batch), t.value());
  // Each of several walks has rows of its own, which are combined at the end.
  while (parts > 1 && size_as_number(t) < kStepsPerRow * size_as_number(rows_) * static_cast<double>(parts))
    parts /= 2;
  if (parts > 1) {
    const std::int64_t steps = (t.value() + parts - 1) / parts;
    std::vector<std::pair<Size, Size>> padding(values.shape().size(), {0, 0});
    padding[1] = {0, parts * steps - t.value()};
    Shape shape = values.shape();
    shape[0] = batch * parts;
    shape[1] = steps;
    index = index.pad({padding[0], padding[1]}, -1).reshape({shape[0], shape[1]});
    x = x.pad(padding).reshape(shape);
  }
  Tensor all = scatter_in_order(op, x, index, rows_);
  if (parts == 1) return all;
  Shape joined = out;
  joined.insert(joined.begin() + 1, parts);
  const std::int64_t axis = 1;
  return reduce_keep(op, all.reshape(joined), std::span(&axis, 1)).reshape(out);
}

Tensor Rows::reduce(Op op, const Tensor& values) const {
  if (walks_) return walked(op, values);
  const DType dtype = ir_dtype(values.dtype());
  Shape out = values.shape();
  out[1] = rows_;
  if (lists_) {
    const Lists& l = *lists_;
    Node all = ragged_reduce(op, node_of(flat_rows(values)), node_of(l.row), node_of(l.order),
                             node_of(l.begin), node_of(l.end));
    return make_tensor(all, values.device(), is_tracked(values)).reshape(out);
  }
  Shape thin{index_.size(0), rows_, index_.size(1)};
  Shape wide = thin;
  for (std::size_t i = 2; i < values.shape().size(); ++i) {
    thin.push_back(1);
    wide.push_back(values.shape()[i]);
  }
  Node unit = element_const(dtype, unit_of(op, dtype));
  // Spread over the rest before it is compared: a comparison that several elements share would be stored.
  Tensor index = index_.unsqueeze(1).expand({thin[0], thin[1], thin[2]}).reshape(thin).expand(wide);
  Tensor row = iota_along(rows_, 1, static_cast<std::int64_t>(wide.size()), index_.dtype(), index_.device());
  const std::int64_t axis = 2;
  return reduce_keep(op, (index == row).where(values.unsqueeze(1), make_tensor(unit, values.device())),
                     std::span(&axis, 1))
      .reshape(out);
}

Tensor Rows::count() const {
  if (walks_)
    return walked(Op::Add, Tensor::ones(index_.shape(), {.dtype = dtypes::int32, .device = index_.device()}));
  if (!lists_) return hits().cast(dtypes::int32).sum(2).cast(dtypes::int32);
  return (lists_->end - lists_->begin).reshape({index_.size(0), rows_});
}

Tensor Rows::last() const {
  if (walks_) {
    Tensor number = iota_along(index_.size(1), 1, 2, dtypes::int32, index_.device()) + 1;
    return walked(Op::Max, number.expand(index_.shape())).maximum(0);
  }
  if (!lists_) {
    Tensor number = iota_along(index_.size(1), 2, 3, position_dtype(index_.size(1)), index_.device()) + 1;
    return hits().where(number, 0).max(2);
  }
  const Lists& l = *lists_;
  Tensor at = make_tensor(take(node_of(l.order), node_of(l.end - 1)), index_.device());
  Tensor number = at.reshape({index_.size(0), rows_}) -
                  iota_along(index_.size(0), 0, 2, dtypes::int32, index_.device()) * index_.size(1).value() +
                  1;
  return (count() > 0).where(number, 0);
}

Node take_gradient(Node g, Node out) {
  Node x = out.arg(0), index = out.arg(1);
  auto shared = static_cast<std::size_t>(out.int_attr());
  std::string device = device_of(out);
  if (device.empty()) device = default_device();
  Shape sizes = shape_of_nodes(x.shape()), of_index = shape_of_nodes(index.shape());
  Size batch = 1, values = 1;
  double width = 1;
  for (std::size_t i = 0; i < of_index.size(); ++i)
    (i < shared ? batch : values) = (i < shared ? batch : values) * of_index[i];
  Shape flat{batch, values};
  for (std::size_t i = shared + 1; i < sizes.size(); ++i) {
    flat.push_back(sizes[i]);
    width *= size_as_number(sizes[i]);
  }
  Tensor number = make_tensor(index, device)
                      .cast(position_dtype(sizes[shared], data_type(index.dtype())))
                      .reshape({batch, values});
  Tensor grad = make_tensor(g, device).reshape(flat);
  const DataType narrow = grad.dtype();
  Rows rows(number, sizes[shared], width);
  return node_of(rows.reduce(Op::Add, grad.cast(sum_accumulator(narrow))).cast(narrow).reshape(sizes));
}

Node ragged_gradient(Node g, Node out) {
  Node x = out.arg(0), row = out.arg(1);
  return grouped_gradient(static_cast<Op>(out.int_attr()), g, x, out,
                          {[out](Op op, Node values) {
                             return ragged_reduce(op, values, out.arg(1), out.arg(2), out.arg(3), out.arg(4));
                           },
                           [row](Node per_row) { return take(per_row, row); }});
}

Node scatter_gradient(Node g, Node out) {
  Node x = out.arg(0), index = out.arg(1), size = out.arg(2);
  const auto shared = static_cast<std::int64_t>(index.rank()) - 1;
  return grouped_gradient(static_cast<Op>(out.int_attr()), g, x, out,
                          {[=](Op op, Node values) { return scatter(op, values, index, size); },
                           [=](Node per_row) { return take(per_row, index, shared); }});
}

}  // namespace lathe
