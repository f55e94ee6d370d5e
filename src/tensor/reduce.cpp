// Reductions and what is made of them: means, variances, softmax, argmax.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tensor/autocast.h"
#include "tensor/functions.h"
#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/own_gradient.h"

namespace lathe {

Tensor reduce_keep(Op op, const Tensor& x, std::span<const std::int64_t> axes) {
  Scope scope;
  Node n = node_of(x);
  if (axes.empty()) return x;
  return make_like(x, reduce_axes(op, n, axes));
}

namespace {

Tensor drop_axes(const Tensor& x, std::span<const std::int64_t> axes, bool keepdim) {
  if (keepdim || axes.empty()) return x;
  Shape to;
  for (std::size_t i = 0, next = 0; i < x.shape().size(); ++i) {
    if (next < axes.size() && axes[next] == static_cast<std::int64_t>(i))
      ++next;
    else
      to.push_back(x.shape()[i]);
  }
  return x.reshape(to);
}

// Accumulates in at least 32 bits; small floats come back to their dtype, small integers stay wide.
Tensor accumulate(Op op, const Tensor& x, const Ints& axes, bool keepdim, std::optional<DataType> dtype,
                  std::string_view name) {
  Scope scope;
  Axes over = resolve_axes(axes, x.ndim(), name);
  DataType wide = dtype ? sum_accumulator(*dtype) : sum_accumulator(x.dtype());
  DataType result = dtype ? *dtype : x.dtype().is_float() ? x.dtype() : wide;
  return drop_axes(reduce_keep(op, x.cast(wide), over).cast(result), over, keepdim);
}

Tensor extreme(Op op, const Tensor& x, const Ints& axes, bool keepdim, std::string_view name) {
  Scope scope;
  Axes over = resolve_axes(axes, x.ndim(), name);
  for (std::int64_t a : over)
    if (x.shape()[static_cast<std::size_t>(a)] == 0)
      throw UserError(name, fmt::format("axis {} of {} has no elements, so there is no {}", a,
                                        to_string(x.shape()), name));
  return drop_axes(reduce_keep(op, x, over), over, keepdim);
}

// Its root, whose slope at 0, where no element differs from the mean, counts as 0.
Tensor deviation(const Tensor& variance) {
  return with_own_gradient("lathe.deviation", variance.sqrt(), {variance});
}

Size count_of(const Tensor& x, std::span<const std::int64_t> axes) {
  Nodes sizes;
  for (std::int64_t a : axes) sizes.push_back(size_node(x.shape()[static_cast<std::size_t>(a)]));
  return size_of(size_product(sizes));
}

// The position of the first element that equals the extreme (or is NaN).
Tensor first_extreme(Op op, const Tensor& x, std::optional<std::int64_t> axis, bool keepdim,
                     std::string_view name) {
  Scope scope;
  if (!axis) {
    Tensor flat = first_extreme(op, x.flatten(), 0, false, name);
    return keepdim ? flat.reshape(Shape(x.shape().size(), Size(1))) : flat;
  }
  std::int64_t at = resolve_axis(*axis, x.ndim(), name);
  if (x.ndim() == 0) return x.zeros_like({.dtype = dtypes::int32});
  Tensor best = extreme(op, x, at, true, name).detach(), value = x.detach();
  Tensor hit = value == best;
  if (x.dtype().is_float()) hit = hit | value.isnan();
  const Size& n = x.shape()[static_cast<std::size_t>(at)];
  Tensor position = hit.where(iota_along(n, at, x.ndim(), position_dtype(n), x.device()), n);
  return position.min(at, keepdim);
}

}  // namespace

Tensor Tensor::sum(const Ints& axes, bool keepdim, std::optional<DataType> dtype) const {
  return accumulate(Op::Add, *this, axes, keepdim, dtype, "sum");
}
Tensor Tensor::prod(const Ints& axes, bool keepdim, std::optional<DataType> dtype) const {
  return accumulate(Op::Mul, *this, axes, keepdim, dtype, "prod");
}
Tensor Tensor::max(const Ints& axes, bool keepdim) const {
  return extreme(Op::Max, *this, axes, keepdim, "max");
}
Tensor Tensor::min(const Ints& axes, bool keepdim) const {
  return extreme(Op::Min, *this, axes, keepdim, "min");
}

Tensor Tensor::any(const Ints& axes, bool keepdim) const {
  Scope scope;
  Axes over = resolve_axes(axes, ndim(), "any");
  return drop_axes(reduce_keep(Op::Or, cast(dtypes::bool_), over), over, keepdim);
}
Tensor Tensor::all(const Ints& axes, bool keepdim) const {
  Scope scope;
  Axes over = resolve_axes(axes, ndim(), "all");
  return drop_axes(reduce_keep(Op::And, cast(dtypes::bool_), over), over, keepdim);
}

Tensor Tensor::mean(const Ints& axes, bool keepdim) const {
  Scope scope;
  DataType result = least_upper_float(dtype()), wide = sum_accumulator(result);
  Axes over = resolve_axes(axes, ndim(), "mean");
  Tensor total = reduce_keep(Op::Add, cast(wide), over);
  return drop_axes((total / operand_tensor(count_of(*this, over), *this, wide)).cast(result), over, keepdim);
}

std::pair<Tensor, Tensor> Tensor::var_mean(const Ints& axes, bool keepdim, std::int64_t correction) const {
  Scope scope;
  DataType result = least_upper_float(dtype()), wide = sum_accumulator(result);
  Axes over = resolve_axes(axes, ndim(), "var");
  Tensor x = cast(wide);
  Size n = count_of(*this, over);
  Tensor mean = reduce_keep(Op::Add, x, over) / operand_tensor(n, *this, wide);
  Tensor squares = reduce_keep(Op::Add, (x - mean).square(), over);
  Tensor freedom = operand_tensor(n - correction, *this, wide).maximum(0);
  return {drop_axes((squares / freedom).cast(result), over, keepdim),
          drop_axes(mean.cast(result), over, keepdim)};
}
Tensor Tensor::var(const Ints& axes, bool keepdim, std::int64_t correction) const {
  return var_mean(axes, keepdim, correction).first;
}
Tensor Tensor::std(const Ints& axes, bool keepdim, std::int64_t correction) const {
  return std_mean(axes, keepdim, correction).first;
}
std::pair<Tensor, Tensor> Tensor::std_mean(const Ints& axes, bool keepdim, std::int64_t correction) const {
  Scope scope;
  const DataType result = least_upper_float(dtype());  // which may hold the deviation and not its square
  auto [variance, mean] = cast(sum_accumulator(result)).var_mean(axes, keepdim, correction);
  return {deviation(variance).cast(result), mean.cast(result)};
}

Tensor Tensor::argmax(std::optional<std::int64_t> axis, bool keepdim) const {
  return first_extreme(Op::Max, *this, axis, keepdim, "argmax");
}
Tensor Tensor::argmin(std::optional<std::int64_t> axis, bool keepdim) const {
  return first_extreme(Op::Min, *this, axis, keepdim, "argmin");
}

Tensor Tensor::logsumexp(const Ints& axes, bool keepdim) const {
  Scope scope;
  Tensor x = cast(least_upper_float(widened(*this).dtype()));
  Axes over = resolve_axes(axes, ndim(), "logsumexp");
  Tensor top = reduce_keep(Op::Max, x, over).detach();
  top = top.isinf().where(0, top);
  Ints list(std::vector<std::int64_t>(over.begin(), over.end()));
  if (over.empty()) return x;
  return drop_axes(functions::weight(x - top).sum(list, true).log() + top, over, keepdim);
}

namespace {

bool is_empty_along(const Tensor& x, std::int64_t axis) {
  if (x.ndim() == 0) return false;
  const Size size = x.shape()[static_cast<std::size_t>(axis)];
  return !size.is_symbolic() && size.value() == 0;
}

}  // namespace

Tensor Tensor::softmax(std::int64_t at, std::optional<DataType> dtype) const {
  Scope scope;
  const std::int64_t axis = resolve_axis(at, ndim(), "softmax");
  Tensor x = cast(dtype ? *dtype : least_upper_float(widened(*this).dtype()));
  if (is_empty_along(x, axis)) return x;
  Tensor e = functions::weight(x - x.max(axis, true).detach());
  return e * e.sum(axis, true).reciprocal();  // one division a row, not one an element
}

Tensor Tensor::log_softmax(std::int64_t at, std::optional<DataType> dtype) const {
  Scope scope;
  const std::int64_t axis = resolve_axis(at, ndim(), "log_softmax");
  Tensor x = cast(dtype ? *dtype : least_upper_float(widened(*this).dtype()));
  if (is_empty_along(x, axis)) return x;
  Tensor shifted = x - x.max(axis, true).detach();
  return shifted - functions::weight(shifted).sum(axis, true).log();
}

Tensor Tensor::softmin(std::int64_t axis, std::optional<DataType> dtype) const {
  Scope scope;
  return cast(dtype.value_or(least_upper_float(this->dtype()))).neg().softmax(axis);  // integers would wrap
}

Tensor Tensor::normalize(double p, std::int64_t axis, double eps) const {
  Scope scope;
  if (std::isnan(p)) throw UserError("normalize", "the order of the norm is NaN");
  const DataType result = least_upper_float(dtype());
  const Tensor x = cast(sum_accumulator(result));  // squares leave the range of integers and of half
  // At 0 a power may have no slope: its gradient there is 0.
  const auto power = [](const Tensor& v, double e) {
    const Tensor none = v == 0, some = none.where(1, v);
    return none.where(e > 0 ? 0.0 : std::numeric_limits<double>::infinity(),
                      e == 0.5 ? some.sqrt() : some.pow(e));
  };
  Tensor size = p == 0          ? (x != 0).sum(axis, true).cast(x.dtype())
                : p == 1        ? x.abs().sum(axis, true)
                : p == 2        ? power(x.square().sum(axis, true), 0.5)
                : std::isinf(p) ? (p > 0 ? x.abs().max(axis, true) : x.abs().min(axis, true))
                                : power(power(x.abs(), p).sum(axis, true), 1 / p);
  return (x / size.maximum(eps)).cast(result);
}

}  // namespace lathe
