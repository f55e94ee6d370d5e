// Products of matrices.
#include <fmt/format.h>

#include "formats/onnx/ops/shared.h"
#include "formats/onnx/quantised_sum.h"

namespace lathe::onnx {
namespace {

Tensor product_of_integers(const Tensor& x, const Tensor& w) {
  return x.cast(dtypes::int32).matmul(w.cast(dtypes::int32)).cast(dtypes::int32);
}

Outputs matmul(const Call& c) {
  const Tensor &a = c.x(0), &b = c.x(1);
  if (b.ndim() == 2 && a.ndim() >= 2) {
    const WeightAxes axes{1, {0}, a.ndim() - 1, a.ndim()};
    const auto integers = [](const Tensor& x, const Tensor& w, std::int64_t) {
      return product_of_integers(x, w);
    };
    if (const std::optional<Tensor> sum = quantised_sum(c, axes, integers)) return {*sum};
  }
  return {read_often(c, 0).matmul(read_often(c, 1)).cast(a.dtype())};
}

Outputs gemm(const Call& c) {
  const Tensor &a = c.x(0), &b = c.x(1);
  if (a.ndim() != 2 || b.ndim() != 2) c.fail("two matrices are needed");
  const double alpha = c.number("alpha", 1.0), beta = c.number("beta", 1.0);
  const bool turn_a = c.integer("transA", 0) != 0, turn_b = c.integer("transB", 0) != 0;
  const WeightAxes axes{turn_b ? 0 : 1, {turn_b ? 1 : 0}, 1, 2};
  const auto integers = [&](const Tensor& x, const Tensor& w, std::int64_t) {
    return product_of_integers(turn_a ? x.T() : x, turn_b ? w.T() : w);
  };
  if (alpha == 1 && beta == 1)
    if (const std::optional<Tensor> sum = quantised_sum(c, axes, integers)) return {*sum};
  Tensor y = (turn_a ? read_often(c, 0).T() : read_often(c, 0)).matmul(turn_b ? b.T() : b);
  if (alpha != 1) y = (y * alpha).cast(a.dtype());
  if (!c.has(2)) return {y};
  const Tensor& bias = c.x(2);
  return {y + (beta == 1 ? bias : (bias * beta).cast(a.dtype()))};
}

// By elimination with the largest pivot of each column, all matrices of the batch at once.
Outputs determinant(const Call& c) {
  const Tensor& x = c.x(0);
  if (x.ndim() < 2 || !(x.size(-1) == x.size(-2))) c.fail("square matrices are needed");
  const std::int64_t n = concrete(x.size(-1), c, "the size of the matrices");
  const TensorOptions whole{.dtype = dtypes::int64, .device = c.device()};
  const Tensor rows = Tensor::arange(n, whole).reshape({n, 1});
  Tensor m = x, result;
  for (std::int64_t k = 0; k < n; ++k) {
    const Tensor column = sliced(m, m.ndim() - 1, k, k + 1);
    const Tensor pivot = rows.lt(k).where(-1, column.abs()).argmax(-2, true).cast(dtypes::int64);  // its row
    const Tensor is_pivot = rows.eq(pivot), is_k = rows.eq(k);
    const Tensor chosen = is_pivot.where(m, 0).sum(-2, true), other = sliced(m, m.ndim() - 2, k, k + 1);
    m = is_k.where(chosen, is_pivot.where(other, m));
    const Tensor value = sliced(chosen, m.ndim() - 1, k, k + 1);
    const Tensor signed_value = pivot.eq(k).where(value, value.neg());
    result = result.defined() ? result * signed_value : signed_value;
    const Tensor factor =
        value.eq(0).where(0, sliced(m, m.ndim() - 1, k, k + 1) / value.eq(0).where(1, value));
    m = rows.gt(k).where(m - factor * chosen, m).contiguous();
  }
  if (!result.defined()) result = Tensor::ones({1, 1}, {.dtype = x.dtype(), .device = c.device()});
  Shape shape(x.shape().begin(), x.shape().end() - 2);
  return {result.cast(x.dtype()).reshape(shape)};
}

Outputs einsum(const Call& c) {
  std::string formula;
  for (char ch : c.text("equation"))
    if (ch != ' ') formula += ch;
  return {Tensor::einsum(formula, c.tensors())};
}

// clang-format off
const OpRow kRows[] = {
    {"MatMul", 1, matmul},
    {"Gemm", 1, gemm},
    {"Einsum", 12, einsum},
    {"Det", 11, determinant},
};
// clang-format on

}  // namespace

OpTable product_ops() { return {"", "products", kRows}; }

}  // namespace lathe::onnx
