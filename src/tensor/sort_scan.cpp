// Scans in two levels, and sorting by a network.
#include <fmt/format.h>

#include "tensor/gather.h"
#include "tensor/impl.h"

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
  Shape out = x.shape();
  return joined.shrink_to(out);
}

Tensor scan(const Tensor& x, std::int64_t axis, const ScanRule& rule, std::string_view name) {
  if (x.ndim() == 0) return x;
  axis = resolve_axis(axis, x.ndim(), name);
  if (x.size(axis) == 0) return x;
  return scan_last(x.movedim(axis, -1), rule).movedim(-1, axis);
}

Number low_unit(DataType d) { return dtypes::min(d); }
Number high_unit(DataType d) { return dtypes::max(d); }

std::pair<Tensor, Tensor> extreme_scan(const Tensor& x, std::int64_t axis, const ScanRule& rule,
                                       std::string_view name) {
  if (x.ndim() == 0) return {x, x.zeros_like({.dtype = dtypes::int32})};
  axis = resolve_axis(axis, x.ndim(), name);
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

Tensor Tensor::logcumsumexp(std::int64_t axis) const {
  Scope scope;
  Tensor x = cast(least_upper_float(dtype()));
  if (ndim() == 0) return x;
  axis = resolve_axis(axis, ndim(), "logcumsumexp");
  // Relative to the running maximum each prefix is a sum of at most one and smaller: nothing overflows.
  const std::int64_t n = x.size(axis), rank = ndim();
  if (n == 0) return x;
  Tensor last = x.movedim(axis, -1);
  Tensor top = scan_last(last.detach(), {Op::Max, low_unit});
  top = top.isinf().where(0, top);
  std::vector<std::pair<Size, Size>> padding(static_cast<std::size_t>(rank), {0, 0});
  padding.back() = {n - 1, 0};
  std::int64_t one = 1;
  Tensor w = windows(last.pad(padding, -INFINITY), std::span(&n, 1), std::span(&one, 1), std::span(&one, 1));
  Tensor out = (w - top.unsqueeze(-1)).exp().sum(-1).log() + top;
  return out.movedim(-1, axis);
}

// ---- sorting

namespace {

struct Keys {
  Tensor value, index;  // (..., n), index int32
};

// Strictly: does the first pair come after the second? NaN counts as greatest, padding as last, equals by
// position, so the order is total and the sort stable.
Tensor comes_after(const Keys& a, const Keys& b, bool descending, std::int64_t n, bool padded) {
  Tensor value_after = descending ? a.value < b.value : a.value > b.value;
  Tensor tie = a.value == b.value;
  if (a.value.dtype().is_float()) {
    Tensor an = a.value.isnan(), bn = b.value.isnan();
    value_after = value_after | (descending ? bn & an.logical_not() : an & bn.logical_not());
    tie = tie | (an & bn);
  }
  Tensor position_after = a.index > b.index;
  Tensor after = value_after | (tie & position_after);
  if (!padded) return after;
  Tensor ap = a.index >= n, bp = b.index >= n;
  return (ap & bp.logical_not()) | ((ap == bp) & after);
}

// One layer of the network: the axis is cut in blocks of 2 * half, and element i of a block's first half is
// compared with its partner in the second: the mirrored one, or the one at the same place.
Keys layer(const Keys& k, std::int64_t half, bool mirrored, bool descending, std::int64_t n, bool padded) {
  const std::int64_t size = k.value.size(-1);
  Shape blocks(k.value.shape().begin(), k.value.shape().end() - 1);
  blocks.insert(blocks.end(), {Size(size / (2 * half)), Size(2), Size(half)});
  Keys mine{k.value.reshape(blocks), k.index.reshape(blocks)};
  Ints turned = mirrored ? Ints{-2, -1} : Ints{-2};
  Keys partner{mine.value.flip(turned), mine.index.flip(turned)};
  const auto rank = static_cast<std::int64_t>(blocks.size());
  Tensor upper = iota_along(2, rank - 2, rank, dtypes::int32, k.value.device()).cast(dtypes::bool_);
  Tensor swap = comes_after(mine, partner, descending, n, padded) ^ upper;
  return {swap.where(partner.value, mine.value).reshape(k.value.shape()).contiguous(),
          swap.where(partner.index, mine.index).reshape(k.index.shape()).contiguous()};
}

}  // namespace

std::pair<Tensor, Tensor> Tensor::sort(std::int64_t axis, bool descending) const {
  Scope scope;
  if (ndim() == 0) return {*this, zeros_like({.dtype = dtypes::int32})};
  axis = resolve_axis(axis, ndim(), "sort");
  const std::int64_t n = size(axis);
  Tensor last = detach().movedim(axis, -1);
  if (n <= 1) return {*this, zeros_like({.dtype = dtypes::int32})};
  std::int64_t size = 1;
  while (size < n) size *= 2;
  Shape wide = last.shape();
  wide.back() = size;
  Tensor line = iota_along(size, ndim() - 1, ndim(), dtypes::int32, device());
  Keys k{last.pad_to(wide), line.expand(wide)};
  for (std::int64_t block = 2; block <= size; block *= 2)
    for (std::int64_t half = block / 2; half >= 1; half /= 2)
      k = layer(k, half, half == block / 2, descending, n, size != n);
  Tensor index = k.index.shrink_to(last.shape()).movedim(-1, axis);
  // Floats are gathered anew, so that a gradient goes straight to where each value came from.
  Tensor value = dtype().is_float() ? gather_along(*this, axis, index, kTrusted)
                                    : k.value.shrink_to(last.shape()).movedim(-1, axis);
  return {value, index};
}

Tensor Tensor::argsort(std::int64_t axis, bool descending) const { return sort(axis, descending).second; }

std::pair<Tensor, Tensor> Tensor::topk(std::int64_t k, std::int64_t axis, bool largest, bool) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "topk");
  if (k < 0 || k > size(axis).value())
    throw UserError("topk", fmt::format("{} of the {} elements of axis {}", k, size(axis).str(), axis));
  auto [values, indices] = sort(axis, largest);
  Shape shape = this->shape();
  shape[static_cast<std::size_t>(axis)] = k;
  return {values.shrink_to(shape), indices.shrink_to(shape)};
}

}  // namespace lathe
