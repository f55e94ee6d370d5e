#include "lathe/schedulers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace lathe::nn::schedulers {
namespace {

// From `from` at 0 to `to` at 1.
double linear(double from, double to, double progress) { return from + (to - from) * progress; }
double cosine(double from, double to, double progress) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

double part(std::int64_t step, std::int64_t of) {
  return of <= 0 ? 1 : std::clamp(static_cast<double>(step) / static_cast<double>(of), 0.0, 1.0);
}

void check_length(std::string_view name, std::int64_t total, std::int64_t warmup = 0) {
  if (total <= 0 || warmup < 0 || warmup > total)
    throw UserError(name, fmt::format("{} steps with {} of warm-up", total, warmup))
        .help("total must be positive, and warm-up within 0 and total");
}

}  // namespace

Scheduler::Scheduler(optim::Optimizer& optimizer) : optimizer_(optimizer), base_(optimizer.learning_rate()) {}
void Scheduler::start() { optimizer_.set_learning_rate(at(0)); }
void Scheduler::step() { optimizer_.set_learning_rate(at(++steps_)); }

MultiStep::MultiStep(optim::Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma)
    : Scheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  if (!std::is_sorted(milestones_.begin(), milestones_.end()))
    throw UserError("MultiStep", "the milestones are not in order");
  start();
}
double MultiStep::at(std::int64_t step) const {
  const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), step) - milestones_.begin();
  return base() * std::pow(gamma_, static_cast<double>(passed));
}

CosineAnnealing::CosineAnnealing(optim::Optimizer& optimizer, std::int64_t total, double eta_min,
                                 std::int64_t warmup)
    : Scheduler(optimizer), total_(total), warmup_(warmup), eta_min_(eta_min) {
  check_length("CosineAnnealing", total, warmup);
  start();
}
double CosineAnnealing::at(std::int64_t step) const {
  if (step < warmup_) return linear(0, base(), part(step, warmup_));
  return cosine(base(), eta_min_, part(step - warmup_, total_ - warmup_));
}

OneCycle::OneCycle(optim::Optimizer& optimizer, double max, std::int64_t total,
                   const OneCycleOptions& options)
    : Scheduler(optimizer), max_(max), total_(total), options_(options) {
  check_length("OneCycle", total);
  start();
}
double OneCycle::at(std::int64_t step) const {
  // The peak is reached on a whole step; the last step has the lowest rate.
  const auto peak = static_cast<std::int64_t>(options_.rising * static_cast<double>(total_));
  const double first = max_ / options_.div_factor, last = first / options_.final_div_factor;
  const auto curve = options_.cosine ? cosine : linear;
  if (step < peak) return curve(first, max_, part(step, peak));
  return curve(max_, last, part(step - peak, total_ - 1 - peak));
}

Polynomial::Polynomial(optim::Optimizer& optimizer, std::int64_t total, double end, double power,
                       std::int64_t warmup)
    : Scheduler(optimizer), total_(total), warmup_(warmup), end_(end), power_(power) {
  check_length("Polynomial", total, warmup);
  start();
}
double Polynomial::at(std::int64_t step) const {
  if (step < warmup_) return linear(0, base(), part(step, warmup_));
  return end_ + (base() - end_) * std::pow(1 - part(step - warmup_, total_ - warmup_), power_);
}

Lambda::Lambda(optim::Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : Scheduler(optimizer), factor_(std::move(factor)) {
  start();
}

ReduceOnPlateau::ReduceOnPlateau(optim::Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.lower_is_better ? std::numeric_limits<double>::infinity()
                                    : -std::numeric_limits<double>::infinity()),
      rate_(optimizer.learning_rate()) {
  if (!(options.factor > 0 && options.factor < 1))
    throw UserError("ReduceOnPlateau",
                    fmt::format("the factor is {}, which is not between 0 and 1", options.factor));
}

bool ReduceOnPlateau::improves(double measurement) const {
  if (std::isinf(best_)) return !std::isnan(measurement);
  const double margin = options_.threshold * std::abs(best_);
  return options_.lower_is_better ? measurement < best_ - margin : measurement > best_ + margin;
}

void ReduceOnPlateau::step(double measurement) {
  if (improves(measurement)) {
    best_ = measurement;
    bad_steps_ = 0;
  } else if (++bad_steps_ > options_.patience) {
    rate_ *= options_.factor;
    optimizer_.set_learning_rate(rate_);
    bad_steps_ = 0;
  }
}

}  // namespace lathe::nn::schedulers
