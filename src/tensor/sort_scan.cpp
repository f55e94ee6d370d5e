// Running values and sorting.
#include <algorithm>

#include <fmt/format.h>

#include "tensor/functions.h"
#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/scans.h"

namespace lathe {
namespace {

Tensor scan(Op op, const Tensor& x, std::int64_t axis, std::string_view name) {
  axis = resolve_axis(axis, std::max<std::int64_t>(x.ndim(), 1), name);
  if (x.ndim() == 0 || x.size(axis).value() == 0) return x;
  return running(op, x, axis);
}

std::pair<Tensor, Tensor> extreme_scan(Op op, const Tensor& x, std::int64_t axis, std::string_view name) {
  axis = resolve_axis(axis, std::max<std::int64_t>(x.ndim(), 1), name);
  if (x.ndim() == 0) return {x, x.zeros_like({.dtype = dtypes::int32})};
  Tensor values = scan(op, x, axis, name);
  // An element that equals the extreme so far, or is NaN, is its latest position; the last such position is
  // the index.
  Tensor line = iota_along(x.size(axis), axis, x.ndim(), dtypes::int32, x.device());
  const Tensor own = x.detach(), equal = own == values.detach();
  Tensor at = (x.dtype().is_float() ? equal | own.isnan() : equal).where(line, 0);
  return {values, scan(Op::Max, at, axis, name)};
}

// Integers in the order that sort() promises of x: NaN is greatest, and the two zeros are equal.
Tensor sort_keys(const Tensor& x, bool descending) {
  const DataType d = x.dtype();
  Tensor key = x.detach();
  if (d.is_float()) {
    const bool wide = d == dtypes::float64;
    const DataType bits = wide ? dtypes::int64 : dtypes::int32;
    Tensor value = wide ? key : key.cast(dtypes::float32);
    Tensor plain = (value == 0).where(0.0, value).bitcast(bits);
    key = (plain < 0).where(plain ^ constant(dtypes::max(bits), bits, x), plain);
    key = value.isnan().where(constant(dtypes::max(bits), bits, x), key);
  } else if (d == dtypes::uint64) {
    key = key.bitcast(dtypes::int64) ^ constant(dtypes::min(dtypes::int64), dtypes::int64, x);
  } else {
    key = key.cast(d == dtypes::int64 || d == dtypes::uint32 ? dtypes::int64 : dtypes::int32);
  }
  return descending ? key ^ -1 : key;
}

}  // namespace

Tensor Tensor::cumsum(std::int64_t axis) const {
  Scope scope;
  DataType wide = sum_accumulator(dtype());
  return scan(Op::Add, cast(wide), axis, "cumsum").cast(dtype().is_float() ? dtype() : wide);
}

Tensor Tensor::cumprod(std::int64_t axis) const {
  Scope scope;
  DataType wide = sum_accumulator(dtype());
  return scan(Op::Mul, cast(wide), axis, "cumprod").cast(dtype().is_float() ? dtype() : wide);
}

std::pair<Tensor, Tensor> Tensor::cummax(std::int64_t axis) const {
  Scope scope;
  return extreme_scan(Op::Max, *this, axis, "cummax");
}

std::pair<Tensor, Tensor> Tensor::cummin(std::int64_t axis) const {
  Scope scope;
  return extreme_scan(Op::Min, *this, axis, "cummin");
}

namespace {

// log(exp(a) + exp(b)), also where one or both are infinite.
Tensor log_add(const Tensor& a, const Tensor& b) {
  Tensor top = a.detach().maximum(b.detach());
  top = top.isinf().where(0, top);
  return (functions::weight(a - top) + functions::weight(b - top)).log() + top;
}

// x with the axis last: the logarithms of running sums of exponentials, by windows and then by pieces. A
// window's terms are relative to its greatest, so each is at most one and nothing overflows; windows are
// short, because each term is computed for each of them.
Tensor log_scan_last(const Tensor& x) {
  constexpr std::int64_t kWindow = 8;
  const std::int64_t n = x.size(-1), rank = x.ndim();
  std::vector<std::pair<Size, Size>> padding(static_cast<std::size_t>(rank), {0, 0});
  if (n <= kWindow) {
    padding.back() = {n - 1, 0};
    std::int64_t one = 1;
    Tensor w = windows(x.pad(padding, -INFINITY), std::span(&n, 1), std::span(&one, 1), std::span(&one, 1));
    Tensor top = reduce_keep(Op::Max, w.detach(), std::span(&rank, 1));
    top = top.isinf().where(0, top);
    return (reduce_keep(Op::Add, functions::weight(w - top), std::span(&rank, 1)).log() + top).squeeze(-1);
  }
  const std::int64_t pieces = (n + kWindow - 1) / kWindow;
  Shape shape = x.shape(), whole = shape, out = shape;
  shape.back() = pieces;
  shape.push_back(kWindow);
  whole.back() = pieces * kWindow;
  padding.back() = {0, pieces * kWindow - n};
  Tensor inner = log_scan_last(x.pad(padding, -INFINITY).reshape(shape)).contiguous();
  padding.back() = {1, -1};
  Tensor before = log_scan_last(inner.getitem({kEllipsis, -1})).pad(padding, -INFINITY);
  return log_add(inner, before.unsqueeze(-1)).reshape(whole).shrink_to(out);
}

}  // namespace

Tensor Tensor::logcumsumexp(std::int64_t axis) const {
  Scope scope;
  const DataType result = least_upper_float(dtype());
  axis = resolve_axis(axis, ndim(), "logcumsumexp");
  if (ndim() == 0 || size(axis) == 0) return cast(result);
  return log_scan_last(cast(sum_accumulator(result)).movedim(axis, -1)).movedim(-1, axis).cast(result);
}

// ---- sorting

namespace {

// The first `keep` of an axis, sorted.
std::pair<Tensor, Tensor> sort_axis(const Tensor& x, std::int64_t axis, bool descending, std::int64_t keep) {
  Shape shape = x.movedim(axis, -1).shape();
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i].value();
  Tensor keys = sort_keys(x, descending).movedim(axis, -1).reshape({Size(rows), shape.back()});
  shape.back() = keep;
  Tensor index = make_like(keys, sort_positions(node_of(keys), keep)).reshape(shape).movedim(-1, axis);
  // Gathered from x itself, so that a gradient goes straight to where each value came from.
  return {x.gather(axis, index), index};
}

}  // namespace

std::pair<Tensor, Tensor> Tensor::sort(std::int64_t axis, bool descending) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "sort");
  if (ndim() == 0 || size(axis).value() <= 1) return {*this, zeros_like({.dtype = dtypes::int32})};
  return sort_axis(*this, axis, descending, size(axis).value());
}

Tensor Tensor::argsort(std::int64_t axis, bool descending) const { return sort(axis, descending).second; }

std::pair<Tensor, Tensor> Tensor::topk(std::int64_t k, std::int64_t axis, bool largest, bool) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "topk");
  if (ndim() == 0 && k == 1) return sort(axis);
  if (ndim() == 0) throw UserError("topk", fmt::format("{} of a scalar, which is one element", k));
  if (k < 0 || k > size(axis).value())
    throw UserError("topk", fmt::format("{} of the {} elements of axis {}", k, size(axis).str(), axis));
  if (k > 0 && size(axis).value() > 1) return sort_axis(*this, axis, largest, k);
  Shape shape = this->shape();
  shape[static_cast<std::size_t>(axis)] = k;
  return {shrink_to(shape), Tensor::zeros(shape, {.dtype = dtypes::int32, .device = device()})};
}

}  // namespace lathe
