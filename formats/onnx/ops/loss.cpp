// Losses over classes.
#include <fmt/format.h>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// -log_probability[target] * weight[target], with nothing where the target is to be ignored.
Outputs negative_log_likelihood(const Call& c, const Tensor& log_probability, std::size_t weights) {
  const Tensor target = c.x(1).cast(dtypes::int64);
  const std::string reduction = c.text("reduction", "mean");
  const Size classes = log_probability.size(1);
  Tensor weight;
  Tensor counted = target.ge(0) & target.lt(classes);
  if (c.has_attribute("ignore_index")) counted = counted & target.ne(c.integer("ignore_index"));
  const Tensor safe = counted.where(target, 0);
  const Tensor picked = log_probability.gather(1, safe.unsqueeze(1)).squeeze(1);
  weight = c.has(weights) ? c.x(weights).getitem({safe}) : picked.ones_like();
  weight = counted.where(weight, 0).cast(picked.dtype());
  const Tensor loss = counted.where(picked.neg() * weight, 0).cast(picked.dtype());
  if (reduction == "none") return {loss};
  if (reduction == "sum") return {loss.sum()};
  if (reduction != "mean") c.fail(fmt::format("there is no reduction '{}'", formats::shown(reduction)));
  return {loss.sum() / weight.sum()};
}

Outputs cross_entropy(const Call& c) {
  const Tensor log_probability = c.x(0).log_softmax(1);
  Outputs out = negative_log_likelihood(c, log_probability, 2);
  out.emplace_back(log_probability);
  return out;
}

// clang-format off
const OpRow kRows[] = {
    {"NegativeLogLikelihoodLoss", 12, [](const Call& c) -> Outputs { return negative_log_likelihood(c, c.x(0), 2); }},
    {"SoftmaxCrossEntropyLoss", 12, cross_entropy},
};
// clang-format on

}  // namespace

OpTable loss_ops() { return {"", "losses", kRows}; }

}  // namespace lathe::onnx
