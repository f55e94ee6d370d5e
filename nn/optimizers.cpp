// The update formulas, one optimizer after the other.
#include <fmt/format.h>

#include <utility>

#include "lathe/optim.h"

namespace lathe::nn::optim {
namespace {

Tensor norm_of(const Tensor& x) { return x.square().sum().sqrt(); }

// top / bottom where both are positive, else 1.
Tensor ratio_or_one(const Tensor& top, const Tensor& bottom) {
  return ((top > 0) & (bottom > 0)).where(top / bottom, 1.0);
}

// The direction of a gradient with momentum; `velocity` takes its new value.
Tensor with_momentum(Tensor& velocity, const Tensor& grad, double momentum, bool nesterov) {
  velocity.assign(velocity * momentum + grad);
  return nesterov ? grad + velocity * momentum : velocity;
}

// How far to go: the rate times the direction, or the direction of what the rate was multiplied into.
template <class Options>
Tensor step_of(Tensor& velocity, const Tensor& grad, const Tensor& rate, const Options& o) {
  if (o.classic) return with_momentum(velocity, rate * grad, o.momentum, o.nesterov);
  return rate * with_momentum(velocity, grad, o.momentum, o.nesterov);
}

void check_not_negative(std::string_view optimizer, std::string_view what, double value) {
  if (!(value >= 0))
    throw UserError(optimizer, fmt::format("{} is {}, which is not a number of at least 0", what, value));
}
// The share of the old in a running mean.
void check_share(std::string_view optimizer, std::string_view what, double value) {
  if (!(value >= 0 && value < 1))
    throw UserError(optimizer, fmt::format("{} is {}, which is outside [0, 1)", what, value));
}
void check_momentum(std::string_view optimizer, double momentum, double weight_decay) {
  check_not_negative(optimizer, "momentum", momentum);
  check_not_negative(optimizer, "weight_decay", weight_decay);
}

}  // namespace

SGD::SGD(std::vector<Tensor> parameters, double lr, const SGDOptions& options)
    : Optimizer(std::move(parameters), lr), options_(options) {
  check_momentum("SGD", options.momentum, options.weight_decay);
  if (options.nesterov && options.momentum == 0) throw UserError("SGD", "nesterov needs a momentum");
  if (options.nesterov && options.dampening != 0) throw UserError("SGD", "nesterov goes without dampening");
  if (options.momentum != 0) add_state("momentum");
  if (dampened()) add_scalar("started", 0);
  finish();
}

void SGD::begin_step() {
  if (!dampened()) return;
  share_ = 1 - scalar(1) * options_.dampening;
  scalar(1).assign(scalar(1).ones_like());
}

Tensor SGD::updated(std::size_t i, const Tensor& value, const Tensor& grad) {
  Tensor full = options_.weight_decay == 0 ? grad : grad + value * options_.weight_decay;
  if (options_.momentum == 0) return value - lr() * full;
  if (dampened()) full = full * share_;
  return value - step_of(state(0, i), full, lr(), options_);
}

LARS::LARS(std::vector<Tensor> parameters, double lr, const LARSOptions& options)
    : Optimizer(std::move(parameters), lr), options_(options) {
  check_momentum("LARS", options.momentum, options.weight_decay);
  check_not_negative("LARS", "trust", options.trust);
  add_state("momentum");
  finish();
}

Tensor LARS::updated(std::size_t i, const Tensor& value, const Tensor& grad) {
  const Tensor size = norm_of(value), slope = norm_of(grad);
  const Tensor full = grad + value * options_.weight_decay;
  if (options_.trust == 0) return value - step_of(state(0, i), full, lr(), options_);
  const Tensor trust =
      ((size > 0) & (slope > 0)).where(size * options_.trust / (slope + size * options_.weight_decay), 1.0);
  return value - step_of(state(0, i), full, lr() * trust, options_);
}

AdamW::AdamW(std::vector<Tensor> parameters, double lr, const AdamOptions& options)
    : Optimizer(std::move(parameters), lr), options_(options) {
  check_share("Adam", "beta1", options.beta1);
  check_share("Adam", "beta2", options.beta2);
  check_not_negative("Adam", "eps", options.eps);
  check_not_negative("Adam", "weight_decay", options.weight_decay);
  // The sums of weights start at 0 and approach 1. Kept instead of beta^t because 1 - beta^t loses digits.
  add_scalar("weight_sum1", 0);
  add_scalar("weight_sum2", 0);
  add_state("m");
  add_state("v");
  finish();
}

void AdamW::begin_step() {
  scalar(1).assign(scalar(1) * options_.beta1 + (1 - options_.beta1));
  scalar(2).assign(scalar(2) * options_.beta2 + (1 - options_.beta2));
}

Tensor AdamW::direction(std::size_t i, const Tensor& value, const Tensor& grad) {
  Tensor &m = state(0, i), &v = state(1, i);
  m.assign(m * options_.beta1 + grad * (1 - options_.beta1));
  v.assign(v * options_.beta2 + grad.square() * (1 - options_.beta2));
  const Tensor u = m / scalar(1) / ((v / scalar(2)).sqrt() + options_.eps);
  return options_.weight_decay == 0 ? u : u + value * options_.weight_decay;
}

Tensor AdamW::updated(std::size_t i, const Tensor& value, const Tensor& grad) {
  return value - lr() * direction(i, value, grad);
}

Adam::Adam(std::vector<Tensor> parameters, double lr, const AdamOptions& options)
    : AdamW(std::move(parameters), lr, {options.beta1, options.beta2, options.eps, 0}),
      decay_(options.weight_decay) {
  check_not_negative("Adam", "weight_decay", decay_);
}

Tensor Adam::updated(std::size_t i, const Tensor& value, const Tensor& grad) {
  return AdamW::updated(i, value, decay_ == 0 ? grad : grad + value * decay_);
}

LAMB::LAMB(std::vector<Tensor> parameters, double lr, const AdamOptions& options)
    : AdamW(std::move(parameters), lr, options) {}

Tensor LAMB::updated(std::size_t i, const Tensor& value, const Tensor& grad) {
  const Tensor way = direction(i, value, grad);
  return value - lr() * ratio_or_one(norm_of(value), norm_of(way)) * way;
}

Muon::Muon(std::vector<Tensor> parameters, double lr, const MuonOptions& options)
    : Optimizer(std::move(parameters), lr), options_(options) {
  check_momentum("Muon", options.momentum, options.weight_decay);
  for (const Tensor& p : this->parameters())
    if (p.ndim() < 2)
      throw UserError("Muon",
                      fmt::format("a parameter has shape {}, two axes are needed", to_string(p.shape())))
          .help("give biases and norms to another optimizer and join the two with OptimizerGroup");
  if (options.momentum != 0) add_state("momentum");
  finish();
}

Tensor Muon::updated(std::size_t i, const Tensor& value, const Tensor& grad) {
  const Tensor way =
      options_.momentum == 0 ? grad : with_momentum(state(0, i), grad, options_.momentum, options_.nesterov);
  const Tensor orthogonal =
      way.flatten(1).newton_schulz(options_.steps, options_.coefficients).reshape(value.shape());
  return value * (1.0 - lr() * options_.weight_decay) - lr() * orthogonal;
}

}  // namespace lathe::nn::optim
