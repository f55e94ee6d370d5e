#include "tensor/gather.h"

#include <algorithm>

#include <fmt/format.h>

#include "schedule/sort_rows.h"
#include "tensor/impl.h"
#include "tensor/rows.h"

namespace lathe {

DataType position_dtype(const Size& n, DataType index) {
  bool fits = index.itemsize() < 4 || index == dtypes::int32;
  return fits && n.max() <= ir_dtype(dtypes::int32).max_int() ? dtypes::int32 : dtypes::int64;
}

// Where there is nothing, no index is right: what it takes would be made up.
static void refuse_empty(const Tensor& index, const Size& n, std::string_view op) {
  if (op != kTrusted && n.max() == 0 && numel_max(node_of(index)) > 0)
    throw IndexError(
        op, fmt::format("an index of shape {} into an axis without elements", to_string(index.shape())));
}

Tensor axis_positions(const Tensor& index, const Size& n, std::string_view op) {
  refuse_empty(index, n, op);
  // Wide enough for the index and for n beside it until it is checked: a value that wraps could land inside.
  Tensor i = index.cast(position_dtype(n, index.dtype()));
  i = (i < 0).where(i.add(n), i);
  if (op.empty()) return i;
  Node size = node_of(operand_tensor(Operand(n), i, i.dtype()));
  return make_like(i, check(node_of(i), size, bool_const(true), op)).cast(position_dtype(n));
}

Tensor take_in_rows(const Tensor& x, const Tensor& index) {
  return make_like(x, take(node_of(x), node_of(index), 1));
}

Tensor take_rows(const Tensor& x, const Tensor& index, std::string_view op) {
  Tensor i = axis_positions(index, x.size(0), op);
  if (x.size(0).max() > 0) return make_tensor(take(node_of(x), node_of(i)), x.device(), origin_of(x));
  Shape shape = index.shape();
  shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
  return Tensor::zeros(shape, {.dtype = x.dtype(), .device = x.device()});
}

Tensor put_rows(const Tensor& x, const Tensor& index, const Tensor& rows, std::string_view op) {
  Tensor flat_index = axis_positions(index, x.size(0), op).flatten();
  Size writes = flat_index.size(0);
  if (writes.max() == 0) return x;
  Shape row_shape = x.shape();
  row_shape[0] = writes;
  Tensor last = last_of_rows(flat_index.unsqueeze(0), x.size(0)).reshape({x.size(0)});
  Shape column(x.shape().size(), Size(1));
  column[0] = x.size(0);
  return (last > 0).reshape(column).where(take_rows(rows.reshape(row_shape), last - 1, kTrusted), x);
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

void check_source(std::string_view op, const Tensor& x, const Tensor& src) {
  if (src.dtype() != x.dtype())
    throw TypeError(op, fmt::format("values of {} into a tensor of {}", src.dtype().name(), x.dtype().name()))
        .help("cast one of them");
}

// The front of every axis but one.
Tensor fit_to(const Tensor& x, const Shape& shape, std::int64_t except) {
  std::vector<std::pair<Size, Size>> bounds;
  for (std::size_t i = 0; i < shape.size(); ++i)
    bounds.emplace_back(0, static_cast<std::int64_t>(i) == except ? x.shape()[i] : shape[i]);
  return x.shrink(bounds);
}

}  // namespace

// What has no axes has one element along one.
static Tensor with_axis(const Tensor& x) { return x.ndim() == 0 ? x.reshape({1}) : x; }

Tensor Tensor::gather(std::int64_t axis, const Tensor& index) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "gather");
  if (ndim() == 0) return reshape({1}).gather(0, with_axis(index)).reshape(index.shape());
  check_index("gather", *this, axis, index);
  return gather_along(*this, axis, index, "gather");
}

Tensor gather_along(const Tensor& from, std::int64_t axis, const Tensor& index, std::string_view op) {
  if (from.ndim() == 0) return from.expand(index.shape());
  const Size& n = from.size(axis);
  refuse_empty(index, n, op);
  if (n.max() == 0) return Tensor::zeros(index.shape(), {.dtype = from.dtype(), .device = from.device()});
  Tensor x = fit_to(from, index.shape(), axis).movedim(axis, -1);  // (..., n)
  Tensor i = axis_positions(index, n, op).movedim(axis, -1);       // (..., t)
  return make_tensor(take(node_of(x), node_of(i), from.ndim() - 1), from.device(), origin_of(from))
      .movedim(-1, axis);
}

namespace {

// Everything but the last axis as one.
Tensor batched(const Tensor& x) { return x.ndim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2); }

// A value a row, (batch, rows), in the shape of `like` whose `axis` the rows are; `beyond` where no index can
// reach.
Tensor place_rows(const Tensor& x, const Tensor& index, std::int64_t axis, const Tensor& like,
                  Number beyond = 0) {
  Shape shape = index.movedim(axis, -1).shape();
  shape.back() = like.size(axis);
  Tensor placed = x.reshape(shape).movedim(-1, axis);
  std::vector<std::pair<Size, Size>> padding;
  for (std::int64_t i = 0; i < like.ndim(); ++i) padding.emplace_back(0, like.size(i) - placed.size(i));
  return placed.pad(padding, beyond);
}

}  // namespace

Tensor Tensor::scatter(std::int64_t axis, const Tensor& index, const Operand& src,
                       std::string_view reduce) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "scatter");
  if (src.tensor() != nullptr) check_source("scatter", *this, *src.tensor());
  Tensor value = operand_tensor(src, *this, dtype());
  if (ndim() == 0) return reshape({1}).scatter(0, with_axis(index), with_axis(value), reduce).reshape({});
  if (value.ndim() == 0) value = value.expand(index.shape());
  if (reduce == "add") return scatter_reduce(axis, index, value, "sum");
  if (reduce == "multiply") return scatter_reduce(axis, index, value, "prod");
  if (!reduce.empty())
    throw UserError("scatter", fmt::format("reduce \"{}\" is unknown", reduce))
        .help("\"\", \"add\" or \"multiply\"");
  check_index("scatter", *this, axis, index);
  if (numel_max(node_of(index)) == 0) return as_own(*this);
  Tensor from = batched(value.shrink_to(index.shape()).movedim(axis, -1));  // (batch, t)
  Tensor i = batched(axis_positions(index, size(axis), "scatter").movedim(axis, -1));
  Tensor last = last_of_rows(i, size(axis));  // (batch, n)
  Tensor written = take_in_rows(from, last - 1);
  return place_rows(last > 0, index, axis, *this).where(place_rows(written, index, axis, *this), *this);
}

namespace {

struct ScatterRule {
  std::string_view name;
  Op op;
  Number (*unit)(DataType);
};
constexpr ScatterRule kScatterRules[] = {
    {"sum", Op::Add, [](DataType) -> Number { return 0; }},
    {"mean", Op::Add, [](DataType) -> Number { return 0; }},
    {"prod", Op::Mul, [](DataType) -> Number { return 1; }},
    {"amax", Op::Max, [](DataType d) -> Number { return dtypes::min(d); }},
    {"amin", Op::Min, [](DataType d) -> Number { return dtypes::max(d); }},
};

// Whole numbers are rounded down, and never become floats, which would not hold them all.
Tensor mean_of(const Tensor& sum, const Tensor& count) {
  return sum.dtype().is_float() ? sum / count.cast(sum.dtype()) : sum.floor_divide(count.cast(sum.dtype()));
}

}  // namespace

Tensor Tensor::scatter_reduce(std::int64_t axis, const Tensor& index, const Tensor& src,
                              std::string_view reduce, bool include_self) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "scatter_reduce");
  if (ndim() == 0)
    return reshape({1}).scatter_reduce(0, with_axis(index), with_axis(src), reduce, include_self).reshape({});
  check_index("scatter_reduce", *this, axis, index);
  const ScatterRule* rule = std::find_if(std::begin(kScatterRules), std::end(kScatterRules),
                                         [&](const auto& r) { return r.name == reduce; });
  if (rule == std::end(kScatterRules))
    throw UserError("scatter_reduce", fmt::format("reduce \"{}\" is unknown", reduce))
        .help("sum, prod, mean, amax or amin");
  check_source("scatter_reduce", *this, src);
  if (numel_max(node_of(index)) == 0) return as_own(*this);
  const DataType wide = rule->op == Op::Add || rule->op == Op::Mul ? sum_accumulator(dtype()) : dtype();
  Tensor from = batched(src.cast(dtype()).shrink_to(index.shape()).movedim(axis, -1)).cast(wide);
  Tensor row = batched(axis_positions(index, size(axis), "scatter_reduce").movedim(axis, -1));
  Tensor combined = combine_rows(rule->op, from, row, size(axis));
  // Rows without values hold the unit, which changes nothing.
  if (include_self && reduce != "mean")
    return primitive(rule->op, cast(wide), place_rows(combined, index, axis, *this, rule->unit(wide)))
        .cast(dtype());
  Tensor times = place_rows(count_rows(row, size(axis)), index, axis, *this), touched = times > 0;
  Tensor placed = place_rows(combined, index, axis, *this);
  if (reduce == "mean")
    placed = include_self ? mean_of(placed + cast(wide), times + 1) : mean_of(placed, times.maximum(1));
  return touched.where(placed.cast(dtype()), *this);
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
  if (flat.size(0).max() == 0 || size == 0)
    return {Tensor::full({Size(size)}, -1, {.dtype = dtypes::int32, .device = mask.device()}), flat.sum()};
  // The k-th true element is where the number of them so far becomes k.
  const DataType position = position_dtype(flat.size(0));
  Tensor rank = flat.cast(position).cumsum(0).cast(position).contiguous();
  Tensor wanted = iota_along(size, 1, 2, position, mask.device()) + 1;
  Node place = count_less(node_of(rank.unsqueeze(0)), node_of(wanted));
  Tensor at = make_like(rank, place).reshape({Size(size)});
  return {(at < flat.size(0).value()).where(at, -1), flat.sum()};
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
