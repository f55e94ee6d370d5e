// ai.onnx.preview.training: optimizer steps and gradients.
#include <fmt/format.h>

#include <cmath>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// Inputs are the rate, the step, then for n tensors: n values, n gradients and n of each state.
struct Step {
  Tensor rate;
  Tensor count;
  std::size_t tensors;
};

Step step_of(const Call& c, std::size_t groups) {
  if (c.inputs.size() < 2 + groups || (c.inputs.size() - 2) % groups != 0)
    c.fail("the inputs do not make whole groups");
  return {c.x(0).reshape({}), c.x(1).reshape({}).cast(dtypes::float32), (c.inputs.size() - 2) / groups};
}

Outputs adagrad(const Call& c) {
  const Step s = step_of(c, 3);
  const Tensor rate = s.rate / (s.count * c.number("decay_factor", 0.0) + 1.0);
  Outputs values, sums;
  for (std::size_t i = 0; i < s.tensors; ++i) {
    const Tensor &x = c.x(2 + i), &g = c.x(2 + s.tensors + i), &h = c.x(2 + 2 * s.tensors + i);
    const Tensor gradient = x * c.number("norm_coefficient", 0.0) + g, sum = h + gradient.square();
    values.emplace_back(x - rate * gradient / (sum.sqrt() + c.number("epsilon", 1e-6)));
    sums.emplace_back(sum);
  }
  values.insert(values.end(), sums.begin(), sums.end());
  return values;
}

Outputs adam(const Call& c) {
  const Step s = step_of(c, 4);
  const double alpha = c.number("alpha", 0.9), beta = c.number("beta", 0.999),
               epsilon = c.number("epsilon", 1e-6);
  const Tensor one = Tensor(1.0F, {.device = c.device()});
  const Tensor corrected = s.rate * (one - s.count.rpow(beta)).sqrt() / (one - s.count.rpow(alpha));
  const Tensor rate = s.count.gt(0).where(corrected, s.rate);
  Outputs values, firsts, seconds;
  for (std::size_t i = 0; i < s.tensors; ++i) {
    const Tensor &x = c.x(2 + i), &g = c.x(2 + s.tensors + i);
    const Tensor &v = c.x(2 + 2 * s.tensors + i), &h = c.x(2 + 3 * s.tensors + i);
    const Tensor gradient = x * c.number("norm_coefficient", 0.0) + g;
    const Tensor first = v * alpha + gradient * (1.0 - alpha),
                 second = h * beta + gradient.square() * (1.0 - beta);
    const Tensor moved = x - rate * first / (second.sqrt() + epsilon);
    values.emplace_back(moved * (1.0 - c.number("norm_coefficient_post", 0.0)));
    firsts.emplace_back(first);
    seconds.emplace_back(second);
  }
  values.insert(values.end(), firsts.begin(), firsts.end());
  values.insert(values.end(), seconds.begin(), seconds.end());
  return values;
}

Outputs momentum(const Call& c) {
  const Step s = step_of(c, 3);
  const double alpha = c.number("alpha"), beta = c.number("beta");
  const bool nesterov = c.text("mode") == "nesterov";
  // The first step takes the whole gradient.
  const Tensor share = s.count.gt(0).where(beta, 1.0);
  Outputs values, momenta;
  for (std::size_t i = 0; i < s.tensors; ++i) {
    const Tensor &x = c.x(2 + i), &g = c.x(2 + s.tensors + i), &v = c.x(2 + 2 * s.tensors + i);
    const Tensor gradient = x * c.number("norm_coefficient") + g;
    const Tensor next = (v * alpha + gradient * share).cast(x.dtype());
    values.emplace_back(x - s.rate * (nesterov ? gradient + next * alpha : next));
    momenta.emplace_back(next);
  }
  values.insert(values.end(), momenta.begin(), momenta.end());
  return values;
}

// Of a value of the graph around with respect to the node's inputs.
Outputs gradient(const Call& c) {
  const Entry* y = c.scope.find(c.text("y"));
  if (y == nullptr) c.fail("the value to differentiate is not made before the node");
  std::vector<Tensor> xs;
  for (std::size_t i = 0; i < c.texts("xs").size(); ++i) xs.push_back(c.x(i));
  Outputs out;
  for (Tensor& g : y->value.tensor().sum().gradient(xs)) out.emplace_back(std::move(g));
  return out;
}

// clang-format off
const OpRow kRows[] = {{"Adagrad", 1, adagrad}, {"Adam", 1, adam}, {"Momentum", 1, momentum}, {"Gradient", 1, gradient}};
// clang-format on

}  // namespace

OpTable training_ops() { return {"ai.onnx.preview.training", "training", kRows}; }

}  // namespace lathe::onnx
