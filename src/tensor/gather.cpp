#include "tensor/gather.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tensor/impl.h"

namespace lathe {

DataType position_dtype(const Size& n, DataType index) {
  bool fits = index.itemsize() < 4 || index == dtypes::int32;
  return fits && n.max() <= ir_dtype(dtypes::int32).max_int() ? dtypes::int32 : dtypes::int64;
}

Tensor axis_positions(const Tensor& index, const Size& n, std::string_view op) {
  // Wide enough for the index and for n beside it until it is checked: a value that wraps could land inside.
  Tensor i = index.cast(position_dtype(n, index.dtype()));
  i = (i < 0).where(i.add(n), i);
  if (op.empty()) return i;
  Node size = node_of(operand_tensor(Operand(n), i, i.dtype()));
  return make_like(i, check(node_of(i), size, bool_const(true), op)).cast(position_dtype(n));
}

Tensor take_rows(const Tensor& x, const Tensor& index, std::string_view op) {
  const std::int64_t lead = index.ndim(), rest = x.ndim() - 1;
  Shape table(static_cast<std::size_t>(lead), Size(1)), thin = index.shape(), wide = index.shape();
  table.insert(table.end(), x.shape().begin(), x.shape().end());
  thin.insert(thin.end(), static_cast<std::size_t>(rest) + 1, Size(1));
  wide.push_back(1);
  wide.insert(wide.end(), x.shape().begin() + 1, x.shape().end());
  // Spread over the rest before it is compared: a comparison that several elements share would be stored.
  Tensor i = axis_positions(index.reshape(thin).expand(wide), x.size(0), op);
  Tensor hit = i == iota_along(x.size(0), lead, lead + 1 + rest, i.dtype(), x.device());
  Tensor out = reduce_keep(Op::Add, hit.where(x.reshape(table), zero_beside(x)), std::span(&lead, 1));
  Shape shape = index.shape();
  shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
  return out.reshape(shape);
}

Tensor put_rows(const Tensor& x, const Tensor& index, const Tensor& rows, std::string_view op) {
  Tensor flat_index = axis_positions(index, x.size(0), op).flatten();
  Size writes = flat_index.size(0);
  Shape row_shape = x.shape();
  row_shape[0] = writes;
  Tensor flat_rows = rows.reshape(row_shape);
  // The last write to each row, counted from 1; 0 means none.
  Tensor row = iota_along(x.size(0), 0, 2, flat_index.dtype(), x.device());
  Tensor write = iota_along(writes, 1, 2, position_dtype(writes), x.device()) + 1;
  Tensor last = (flat_index.unsqueeze(0) == row).where(write, 0).max(1);
  Shape column(x.shape().size(), Size(1));
  column[0] = x.size(0);
  return (last > 0).reshape(column).where(take_rows(flat_rows, last - 1, kTrusted), x);
}

namespace {

// index and x with `axis` last, and everything checked that gather and scatter need.
void check_index(std::string_view op, const Tensor& x, std::int64_t axis, const Tensor& index) {
  check_same_device(op, x, index);
  if (!index.dtype().is_int())
    throw TypeError(op, fmt::format("an index of dtype {}", index.dtype().name()))
        .help("cast it to an integer dtype");
  bool fits = index.ndim() == x.ndim();
  for (std::int64_t i = 0; fits && i < x.ndim(); ++i)
    fits = i == axis || index.size(i).max() <= x.size(i).max();
  if (!fits)
    throw UserError(op, fmt::format("an index of shape {} does not fit {} along axis {}",
                                    to_string(index.shape()), to_string(x.shape()), axis))
        .help("as many axes, and none longer, except the one that is indexed");
}

// The front of every axis but one.
Tensor fit_to(const Tensor& x, const Shape& shape, std::int64_t except) {
  std::vector<std::pair<Size, Size>> bounds;
  for (std::size_t i = 0; i < shape.size(); ++i)
    bounds.emplace_back(0, static_cast<std::int64_t>(i) == except ? x.shape()[i] : shape[i]);
  return x.shrink(bounds);
}

}  // namespace

Tensor Tensor::gather(std::int64_t axis, const Tensor& index) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "gather");
  check_index("gather", *this, axis, index);
  return gather_along(*this, axis, index, "gather");
}

Tensor gather_along(const Tensor& from, std::int64_t axis, const Tensor& index, std::string_view op) {
  if (from.ndim() == 0) return from.expand(index.shape());
  const std::int64_t last = from.ndim();
  const Size& n = from.size(axis);
  Tensor x = fit_to(from, index.shape(), axis).movedim(axis, -1);  // (..., n)
  Tensor i = axis_positions(index, n, op).movedim(axis, -1);       // (..., t)
  Tensor line = iota_along(n, last, last + 1, i.dtype(), from.device());
  Tensor hit = i.unsqueeze(-1) == line;  // (..., t, n)
  Tensor wide = x.unsqueeze(-2);
  Tensor out = reduce_keep(Op::Add, hit.where(wide, zero_beside(wide)), std::span(&last, 1));
  return out.squeeze(-1).movedim(-1, axis);
}

Tensor Tensor::scatter(std::int64_t axis, const Tensor& index, const Operand& src,
                       std::string_view reduce) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "scatter");
  Tensor value = operand_tensor(src, *this, dtype());
  if (value.ndim() == 0 && ndim() > 0) value = value.expand(index.shape());
  if (reduce == "add") return scatter_reduce(axis, index, value, "sum");
  if (reduce == "multiply") return scatter_reduce(axis, index, value, "prod");
  if (!reduce.empty())
    throw UserError("scatter", fmt::format("reduce \"{}\" is unknown", reduce))
        .help("\"\", \"add\" or \"multiply\"");
  check_index("scatter", *this, axis, index);
  Tensor from = value.shrink_to(index.shape()).movedim(axis, -1);  // (..., t)
  Tensor i = axis_positions(index, size(axis), "scatter").movedim(axis, -1);
  Tensor n = iota_along(size(axis), ndim() - 1, ndim() + 1, i.dtype(), device());
  Tensor t = iota_along(index.size(axis), ndim(), ndim() + 1, position_dtype(index.size(axis)), device());
  // The last write to each place, counted from 1.
  Tensor last = (i.unsqueeze(-2) == n).where(t + 1, 0).max(-1);  // (..., n)
  Tensor chosen = (last.unsqueeze(-1) - 1 == t).where(from.unsqueeze(-2), zero_beside(from));
  std::int64_t over = ndim();
  Tensor written = reduce_keep(Op::Add, chosen, std::span(&over, 1)).squeeze(-1);
  auto back = [&](const Tensor& part) {
    Shape whole = shape();
    return part.movedim(-1, axis).pad_to(whole);
  };
  return back(last > 0).where(back(written), *this);
}

namespace {

struct ScatterRule {
  std::string_view name;
  Op op;
  double unit;  // neutral, for floats
};
constexpr ScatterRule kScatterRules[] = {
    {"sum", Op::Add, 0},          {"mean", Op::Add, 0},        {"prod", Op::Mul, 1},
    {"amax", Op::Max, -INFINITY}, {"amin", Op::Min, INFINITY},
};

}  // namespace

Tensor Tensor::scatter_reduce(std::int64_t axis, const Tensor& index, const Tensor& src,
                              std::string_view reduce, bool include_self) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "scatter_reduce");
  check_index("scatter_reduce", *this, axis, index);
  const ScatterRule* rule = std::find_if(std::begin(kScatterRules), std::end(kScatterRules),
                                         [&](const auto& r) { return r.name == reduce; });
  if (rule == std::end(kScatterRules))
    throw UserError("scatter_reduce", fmt::format("reduce \"{}\" is unknown", reduce))
        .help("sum, prod, mean, amax or amin");
  Number unit = rule->op == Op::Max   ? dtypes::min(dtype())
                : rule->op == Op::Min ? dtypes::max(dtype())
                                      : Number(rule->unit);
  Tensor from = src.cast(dtype()).shrink_to(index.shape()).movedim(axis, -1);
  Tensor i = axis_positions(index, size(axis), "scatter_reduce").movedim(axis, -1);
  Tensor n = iota_along(size(axis), ndim() - 1, ndim() + 1, i.dtype(), device());
  Tensor hit = i.unsqueeze(-2) == n;  // (..., n, t)
  std::int64_t over = ndim();
  DataType wide = rule->op == Op::Add || rule->op == Op::Mul ? sum_accumulator(dtype()) : dtype();
  Tensor element = from.unsqueeze(-2).cast(wide);
  Tensor total =
      reduce_keep(rule->op, hit.where(element, constant(unit, wide, *this)), std::span(&over, 1)).squeeze(-1);
  Tensor count = hit.sum(-1);
  auto back = [&](const Tensor& part) { return part.movedim(-1, axis).pad_to(shape()); };
  Tensor touched = back(count > 0), sum = back(total).cast(dtype()), times = back(count);
  if (!include_self) {
    if (reduce == "mean") sum = (sum / times.maximum(1)).cast(dtype());
    return touched.where(sum, *this);
  }
  Tensor joined = primitive(rule->op, *this, sum);
  if (reduce == "mean") joined = (joined / (times + 1)).cast(dtype());
  return touched.where(joined, *this);
}

Tensor Tensor::embedding(const Tensor& index) const {
  Scope scope;
  if (ndim() != 2)
    throw UserError("embedding", fmt::format("the table has shape {}, not two axes", to_string(shape())));
  check_same_device("embedding", *this, index);
  return take_rows(*this, index, "embedding");
}

Tensor Tensor::one_hot(std::int64_t classes) const {
  Scope scope;
  if (!dtype().is_int())
    throw TypeError("one_hot", fmt::format("{} tensor where integers are needed", dtype().name()));
  if (classes < 0) classes = max().item<std::int64_t>() + 1;
  DataType position = position_dtype(classes, dtype());
  Tensor line = iota_along(classes, ndim(), ndim() + 1, position, device());
  return (unsqueeze(-1).cast(position) == line).where(1, 0).cast(dtypes::default_int());
}

namespace {

// The flat positions of true elements, in order, `size` of them; `count` says how many there are.
struct Positions {
  Tensor at;  // (size,), -1 beyond the count
  Tensor count;
};

Positions true_positions(const Tensor& mask, std::int64_t size) {
  Tensor flat = mask.cast(dtypes::bool_).flatten();
  DataType position = position_dtype(flat.size(0));
  Tensor rank = flat.cast(position).cumsum(0);  // of a true element: its number from 1
  Tensor slot = iota_along(size, 0, 2, position, mask.device());
  Tensor where = iota_along(flat.size(0), 1, 2, position, mask.device());
  Tensor hit = (rank.unsqueeze(0) - 1 == slot) & flat.unsqueeze(0);
  return {hit.where(where + 1, 0).sum(1) - 1, flat.sum()};
}

}  // namespace

Tensor Tensor::masked_select(const Tensor& mask, std::optional<std::int64_t> size, Number fill) const {
  Scope scope;
  check_same_device("masked_select", *this, mask);
  Nodes common = broadcast_shapes(node_of(*this).shape(), node_of(mask).shape(), "masked_select");
  Shape shape = shape_of_nodes(common);
  Tensor m = mask.cast(dtypes::bool_).expand(shape);
  std::int64_t n = size ? *size : m.sum().item<std::int64_t>();
  Positions p = true_positions(m, n);
  Tensor out = take_rows(expand(shape).flatten(), p.at, kTrusted);
  return size ? (p.at >= 0).where(out, constant(fill, dtype(), *this)) : out;
}

Tensor Tensor::nonzero(std::optional<std::int64_t> size, Number fill) const {
  Scope scope;
  Tensor m = dtype().is_bool() ? *this : *this != 0;
  std::int64_t n = size ? *size : m.sum().item<std::int64_t>();
  if (ndim() == 0) return Tensor::zeros({Size(n), Size(0)}, {.dtype = dtypes::int32, .device = device()});
  Positions p = true_positions(m, n);
  std::vector<Tensor> columns;
  std::int64_t below = 1;
  for (std::int64_t a = ndim(); a-- > 0; below *= this->size(a).value())
    columns.push_back(p.at.floor_divide(below).mod(this->size(a)));
  std::reverse(columns.begin(), columns.end());
  Tensor out = stack(columns, 1);
  return size ? (p.at >= 0).unsqueeze(1).where(out, constant(fill, out.dtype(), *this)) : out;
}

}  // namespace lathe
