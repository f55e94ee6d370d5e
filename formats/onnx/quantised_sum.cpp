#include "formats/onnx/quantised_sum.h"

#include <algorithm>
#include <limits>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// So many products fit 32 bits: a byte times a byte less its zero point is at most 255 * 255.
constexpr std::int64_t kMostProducts = std::numeric_limits<std::int32_t>::max() / (255 * 255);

bool is_byte(const Tensor& t) { return t.dtype() == dtypes::uint8 || t.dtype() == dtypes::int8; }

// Zero points known without reading memory; none stands for zeros.
std::optional<std::vector<std::int64_t>> zeros_of(const Value& zero) {
  if (zero.kind() == Value::Kind::None) return std::vector<std::int64_t>{0};
  if (!zero.known() || zero.known()->is_float()) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const Size& s : zero.known()->sizes) {
    if (s.is_symbolic()) return std::nullopt;
    out.push_back(s.value());
  }
  return out;
}

bool same_for_all(const Quantised& q) {
  return q.block == 0 && q.scale.numel() == 1 &&
         (q.zero.kind() == Value::Kind::None || q.zero.tensor().numel() == 1);
}

bool one_for_each_output(const Quantised& q, std::int64_t axis) {
  const std::int64_t given = q.axis < 0 ? q.axis + q.stored.ndim() : q.axis;
  return q.block == 0 && given == axis && q.scale.ndim() == 1 && q.scale.numel() == q.stored.size(axis);
}

bool all_zero(const std::vector<std::int64_t>& zeros) {
  return std::all_of(zeros.begin(), zeros.end(), [](std::int64_t z) { return z == 0; });
}

// The weight less its zero points; in bytes where they are zero.
Tensor centered_weight(const Call& c, const Quantised& w, std::int64_t axis) {
  return c.evaluator.kept(c, w.stored, "centered", [&] {
    const Tensor zero = w.zero.tensor().cast(dtypes::int16);
    return w.stored.cast(dtypes::int16) -
           (zero.numel() == 1 ? zero.reshape({}) : along(zero, axis, w.stored.ndim()));
  });
}

}  // namespace

std::optional<Tensor> quantised_sum(const Call& c, const WeightAxes& axes, const IntegerSum& sum) {
  const Quantised *x = c.evaluator.quantised(c.x(0)), *w = c.evaluator.quantised(c.x(1));
  if (x == nullptr || w == nullptr || !is_byte(x->stored) || !is_byte(w->stored)) return std::nullopt;
  if (x->scale.dtype() != dtypes::float32 || w->scale.dtype() != dtypes::float32) return std::nullopt;
  if (!same_for_all(*x) || !(same_for_all(*w) || one_for_each_output(*w, axes.output))) return std::nullopt;
  const auto x_zeros = zeros_of(x->zero), w_zeros = zeros_of(w->zero);
  if (!x_zeros || !w_zeros || !c.evaluator.is_constant(w->stored)) return std::nullopt;
  if (c.has(2) && c.x(2).numel() != 1 &&
      !(c.x(2).ndim() == 1 && c.x(2).numel() == w->stored.size(axes.output)))
    return std::nullopt;
  std::int64_t products = 1;
  for (const std::int64_t axis : axes.summed) products *= concrete(w->stored.size(axis), c, "an axis");
  if (products > kMostProducts) return std::nullopt;

  const Tensor weight = all_zero(*w_zeros) ? w->stored : centered_weight(c, *w, axes.output);
  const std::int64_t zero = x_zeros->front();
  Tensor total = sum(x->stored, weight, zero);
  if (zero != 0) {
    const Tensor weights = c.evaluator.kept(c, w->stored, "sums", [&] {
      return weight.cast(dtypes::int32).sum(axes.summed).cast(dtypes::int32).reshape({-1});
    });
    total = total - along(weights * zero, axes.result, axes.rank);
  }
  for (std::size_t i = 0; i < 2; ++i) c.evaluator.note_unread(c.x(i));
  const bool known = x->same_scale && w->same_scale && (!c.has(2) || c.evaluator.is_constant(c.x(2)));
  const auto scale_of = [&] {
    return x->scale.reshape({}) *
           (w->scale.numel() == 1 ? w->scale.reshape({}) : along(w->scale, axes.result, axes.rank));
  };
  const Tensor scale = known ? c.evaluator.kept(c, w->stored, "scale", scale_of) : scale_of();
  Tensor bias;
  if (c.has(2)) bias = c.x(2).numel() == 1 ? c.x(2).reshape({}) : along(c.x(2), axes.result, axes.rank);
  Tensor real = total.cast(dtypes::float32) * scale;
  if (bias.defined()) real = real + bias;
  if (known) c.evaluator.note_scaled_sum({real, w->stored, total, scale, bias});
  return real;
}

Tensor read_often(const Call& c, std::size_t input) {
  const Tensor& t = c.x(input);
  return c.evaluator.quantised(t) != nullptr && !c.evaluator.is_constant(t) ? t.contiguous() : t;
}

}  // namespace lathe::onnx
