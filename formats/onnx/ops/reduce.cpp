// Reductions and scans over axes.
#include <fmt/format.h>

#include <algorithm>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

using Reduce = Tensor (*)(const Tensor& x, const Ints& axes, bool keep);

// Axes are an attribute first and an input later; none mean all, or none at all where the node says so.
Outputs reduced(const Call& c, Reduce reduce) {
  const Tensor& x = c.x(0);
  const auto given = c.ints_of(1, "axes");
  const bool keep = c.integer("keepdims", 1) != 0;
  if ((!given || given->empty()) && c.integer("noop_with_empty_axes", 0) != 0) {
    // No axis is reduced, and the function of one element remains.
    return {reduce(x.unsqueeze(-1), Ints(-1), false).cast(x.dtype())};
  }
  const Numbers axes = given ? c.axes(*given, x.ndim()) : Numbers{};
  if (x.ndim() == 0) return {reduce(x.unsqueeze(0), Ints(0), false).cast(x.dtype())};
  return {reduce(x, axes, keep).cast(x.dtype())};
}

// The greatest or least of no elements is the end of the dtype that any element would replace.
Tensor extreme(const Tensor& x, const Ints& axes, bool keep, bool greatest) {
  bool none = false;
  Shape shape;
  for (std::int64_t i = 0; i < x.ndim(); ++i) {
    const auto is = [&](std::int64_t a) { return a == i || a + x.ndim() == i; };
    const bool reduced_axis = axes.empty() || std::any_of(axes.begin(), axes.end(), is);
    none |= reduced_axis && x.size(i) == 0;
    if (!reduced_axis) shape.push_back(x.size(i));
    if (reduced_axis && keep) shape.emplace_back(1);
  }
  if (none)
    return Tensor::full(shape, greatest ? dtypes::min(x.dtype()) : dtypes::max(x.dtype()),
                        {.dtype = x.dtype(), .device = x.device()});
  return greatest ? x.max(axes, keep) : x.min(axes, keep);
}

Outputs arg(const Call& c, bool greatest) {
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer("axis", 0), x.ndim());
  const bool keep = c.integer("keepdims", 1) != 0;
  auto found = [&](const Tensor& t) {
    return (greatest ? t.argmax(axis, keep) : t.argmin(axis, keep)).cast(dtypes::int64);
  };
  if (c.integer("select_last_index", 0) == 0) return {found(x)};
  return {found(x.flip(axis)).neg().add(x.size(axis) - 1)};
}

Outputs scan(const Call& c, Tensor (Tensor::*method)(std::int64_t) const, Number start) {
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer(std::size_t(1)), x.ndim());
  const bool reverse = c.integer("reverse", 0) != 0;
  Tensor t = reverse ? x.flip(axis) : x;
  if (c.integer("exclusive", 0) != 0) t = sliced(padded(t, axis, 1, 0, start), axis, 0, x.size(axis));
  t = (t.*method)(axis).cast(x.dtype());
  return {reverse ? t.flip(axis) : t};
}

// clang-format off
#define LATHE_ONNX_REDUCE(name, since, ...) {name, since, [](const Call& c) -> Outputs { \
  return reduced(c, [](const Tensor& x, const Ints& axes, bool keep) -> Tensor { return __VA_ARGS__; }); }}
const OpRow kRows[] = {
    LATHE_ONNX_REDUCE("ReduceSum", 1, x.sum(axes, keep)),
    LATHE_ONNX_REDUCE("ReduceMean", 1, x.mean(axes, keep)),
    LATHE_ONNX_REDUCE("ReduceMax", 1, extreme(x, axes, keep, true)),
    LATHE_ONNX_REDUCE("ReduceMin", 1, extreme(x, axes, keep, false)),
    LATHE_ONNX_REDUCE("ReduceProd", 1, x.prod(axes, keep)),
    LATHE_ONNX_REDUCE("ReduceL1", 1, x.abs().sum(axes, keep)),
    LATHE_ONNX_REDUCE("ReduceL2", 1, x.square().sum(axes, keep).sqrt()),
    LATHE_ONNX_REDUCE("ReduceSumSquare", 1, x.square().sum(axes, keep)),
    LATHE_ONNX_REDUCE("ReduceLogSum", 1, x.sum(axes, keep).log()),
    LATHE_ONNX_REDUCE("ReduceLogSumExp", 1, x.logsumexp(axes, keep)),
    {"ArgMax", 1, [](const Call& c) -> Outputs { return arg(c, true); }},
    {"ArgMin", 1, [](const Call& c) -> Outputs { return arg(c, false); }},
    {"CumSum", 11, [](const Call& c) -> Outputs { return scan(c, &Tensor::cumsum, 0); }},
    {"CumProd", 26, [](const Call& c) -> Outputs { return scan(c, &Tensor::cumprod, 1); }},
};
#undef LATHE_ONNX_REDUCE
// clang-format on

}  // namespace

OpTable reduce_ops() { return {"", "reductions", kRows}; }

}  // namespace lathe::onnx
