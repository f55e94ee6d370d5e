// Scans in two levels, and sorting.
#include <algorithm>

#include <fmt/format.h>

#include "tensor/functions.h"
#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/merge_sort.h"
#include "tensor/walks.h"

namespace lathe {
namespace {

struct ScanRule {
  Op op;
  Number (*unit)(DataType);
};

Number zero_unit(DataType) { return 0; }
Number one_unit(DataType) { return 1; }

// A chunk's prefixes are reduces over windows, kChunk steps an element; chunks are joined by a scan of their
// totals, so a scan of n costs about n * kChunk * (1 + 1/kChunk + ...).
constexpr std::int64_t kChunk = 64;

// x with the axis last: out[..., i] = reduce of x[..., 0..i].
Tensor scan_last(const Tensor& x, const ScanRule& rule) {
  const std::int64_t n = x.size(-1), rank = x.ndim();
  Number unit = rule.unit(x.dtype());
  if (n <= kChunk) {
    std::vector<std::pair<Size, Size>> padding(static_cast<std::size_t>(rank), {0, 0});
    padding.back() = {n - 1, 0};
    std::int64_t one = 1;
    Tensor w = windows(x.pad(padding, unit), std::span(&n, 1), std::span(&one, 1), std::span(&one, 1));
    return reduce_keep(rule.op, w, std::span(&rank, 1)).squeeze(-1);
  }
  const std::int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<std::pair<Size, Size>> padding(static_cast<std::size_t>(rank), {0, 0});
  padding.back() = {0, chunks * kChunk - n};
  Shape shape = x.shape(), whole = x.shape();
  shape.back() = chunks;
  shape.push_back(kChunk);
  whole.back() = chunks * kChunk;
  Tensor inner = scan_last(x.pad(padding, unit).reshape(shape), rule).contiguous();
  Tensor totals = inner
                      .shrink_to([&] {
                        Shape s = shape;
                        s.back() = kChunk;
                        return s;
                      }())
                      .getitem({kEllipsis, -1});
  Tensor before = scan_last(totals, rule);  // through each chunk
  std::vector<std::pair<Size, Size>> shift(static_cast<std::size_t>(rank), {0, 0});
  shift.back() = {1, -1};
  Tensor joined = primitive(rule.op, inner, before.pad(shift, unit).unsqueeze(-1)).reshape(whole);
  return joined.shrink_to(x.shape());
}

Tensor scan(const Tensor& x, std::int64_t axis, const ScanRule& rule, std::string_view name) {
  axis = resolve_axis(axis, std::max<std::int64_t>(x.ndim(), 1), name);
  if (x.ndim() == 0) return x;
  if (x.size(axis) == 0) return x;
  if (walks_in_order(x.device())) return scan_in_order(rule.op, x, axis, rule.unit(x.dtype()));
  return scan_last(x.movedim(axis, -1), rule).movedim(-1, axis);
}

Number low_unit(DataType d) { return dtypes::min(d); }
Number high_unit(DataType d) { return dtypes::max(d); }

std::pair<Tensor, Tensor> extreme_scan(const Tensor& x, std::int64_t axis, const ScanRule& rule,
                                       std::string_view name) {
  axis = resolve_axis(axis, std::max<std::int64_t>(x.ndim(), 1), name);
  if (x.ndim() == 0) return {x, x.zeros_like({.dtype = dtypes::int32})};
  Tensor values = scan(x, axis, rule, name);
  // An element that equals the extreme so far is its latest position; the last such position is the index.
  Tensor line = iota_along(x.size(axis), axis, x.ndim(), dtypes::int32, x.device());
  Tensor at = (x.detach() == values.detach()).where(line, 0);
  return {values, scan(at, axis, {Op::Max, zero_unit}, name)};
}

}  // namespace

Tensor Tensor::cumsum(std::int64_t axis) const {
  Scope scope;
  DataType wide = sum_accumulator(dtype());
  return scan(cast(wide), axis, {Op::Add, zero_unit}, "cumsum").cast(dtype().is_float() ? dtype() : wide);
}

Tensor Tensor::cumprod(std::int64_t axis) const {
  Scope scope;
  DataType wide = sum_accumulator(dtype());
  return scan(cast(wide), axis, {Op::Mul, one_unit}, "cumprod").cast(dtype().is_float() ? dtype() : wide);
}

std::pair<Tensor, Tensor> Tensor::cummax(std::int64_t axis) const {
  Scope scope;
  return extreme_scan(*this, axis, {Op::Max, low_unit}, "cummax");
}

std::pair<Tensor, Tensor> Tensor::cummin(std::int64_t axis) const {
  Scope scope;
  return extreme_scan(*this, axis, {Op::Min, high_unit}, "cummin");
}

namespace {

// log(exp(a) + exp(b)), also where one or both are infinite.
Tensor log_add(const Tensor& a, const Tensor& b) {
  Tensor top = a.detach().maximum(b.detach());
  top = top.isinf().where(0, top);
  return (functions::weight(a - top) + functions::weight(b - top)).log() + top;
}

// As scan_last, of a sum of exponentials. A window's terms are relative to its greatest, so each is at most
// one and nothing overflows; windows are short, because each term is computed for each of them.
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
  if (ndim() == 0) return cast(result);
  axis = resolve_axis(axis, ndim(), "logcumsumexp");
  if (size(axis) == 0) return cast(result);
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
  Tensor index = sort_rows(keys, keep).order.reshape(shape).movedim(-1, axis);
  // Gathered from x itself, so that a gradient goes straight to where each value came from.
  return {x.gather(axis, index), index};
}

}  // namespace

std::pair<Tensor, Tensor> Tensor::sort(std::int64_t axis, bool descending) const {
  Scope scope;
  if (ndim() == 0) return {*this, zeros_like({.dtype = dtypes::int32})};
  axis = resolve_axis(axis, ndim(), "sort");
  if (size(axis).value() <= 1) return {*this, zeros_like({.dtype = dtypes::int32})};
  return sort_axis(*this, axis, descending, size(axis).value());
}

Tensor Tensor::argsort(std::int64_t axis, bool descending) const { return sort(axis, descending).second; }

std::pair<Tensor, Tensor> Tensor::topk(std::int64_t k, std::int64_t axis, bool largest, bool) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "topk");
  if (k < 0 || k > size(axis).value())
    throw UserError("topk", fmt::format("{} of the {} elements of axis {}", k, size(axis).str(), axis));
  if (k > 0 && size(axis).value() > 1) return sort_axis(*this, axis, largest, k);
  Shape shape = this->shape();
  shape[static_cast<std::size_t>(axis)] = k;
  return {shrink_to(shape), Tensor::zeros(shape, {.dtype = dtypes::int32, .device = device()})};
}

}  // namespace lathe
