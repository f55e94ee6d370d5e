// Learning-rate schedules. A scheduler holds an optimizer; step(), called after each optimizer step (or
// epoch), writes the next learning rate into the optimizer's tensor. All but ReduceOnPlateau are functions of
// the number of steps, at(step), which can be evaluated without training.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lathe/optim.h"

namespace lathe::nn::schedulers {

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The rate after `step` steps. The optimizer's rate at construction is the base.
  virtual double at(std::int64_t step) const = 0;
  void step();
  std::int64_t steps() const { return steps_; }
  double base() const { return base_; }

 protected:
  // Derived constructors end with start(), which sets at(0).
  explicit Scheduler(optim::Optimizer& optimizer);
  void start();

 private:
  optim::Optimizer& optimizer_;
  double base_;
  std::int64_t steps_ = 0;
};

// Multiplies the rate by gamma at each milestone.
class MultiStep : public Scheduler {
 public:
  MultiStep(optim::Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma = 0.1);
  double at(std::int64_t step) const override;

 private:
  std::vector<std::int64_t> milestones_;
  double gamma_;
};

// From 0 up to the base in `warmup` steps, then down half a cosine to eta_min in the rest of `total` steps.
class CosineAnnealing : public Scheduler {
 public:
  CosineAnnealing(optim::Optimizer& optimizer, std::int64_t total, double eta_min = 0,
                  std::int64_t warmup = 0);
  double at(std::int64_t step) const override;

 private:
  std::int64_t total_, warmup_;
  double eta_min_;
};

struct OneCycleOptions {
  double rising = 0.3;  // fraction of the steps with a rising rate
  double div_factor = 25, final_div_factor = 1e4;
  bool cosine = true;  // otherwise linear
};
// From max / div_factor up to max, then down to max / div_factor / final_div_factor.
class OneCycle : public Scheduler {
 public:
  OneCycle(optim::Optimizer& optimizer, double max, std::int64_t total, const OneCycleOptions& options = {});
  double at(std::int64_t step) const override;

 private:
  double max_;
  std::int64_t total_;
  OneCycleOptions options_;
};

// Linear warm-up, then end + (base - end) * (1 - progress)^power.
class Polynomial : public Scheduler {
 public:
  Polynomial(optim::Optimizer& optimizer, std::int64_t total, double end = 0, double power = 1,
             std::int64_t warmup = 0);
  double at(std::int64_t step) const override;

 private:
  std::int64_t total_, warmup_;
  double end_, power_;
};

// The base times a function of the step.
class Lambda : public Scheduler {
 public:
  Lambda(optim::Optimizer& optimizer, std::function<double(std::int64_t)> factor);
  double at(std::int64_t step) const override { return base() * factor_(step); }

 private:
  std::function<double(std::int64_t)> factor_;
};

struct PlateauOptions {
  bool lower_is_better = true;
  double factor = 0.1;
  std::int64_t patience = 10;  // steps without improvement before the rate is reduced
  double threshold = 1e-4;     // relative
};
// Multiplies the rate by factor when a measurement has stopped improving.
class ReduceOnPlateau {
 public:
  explicit ReduceOnPlateau(optim::Optimizer& optimizer, const PlateauOptions& options = {});
  void step(double measurement);

 private:
  bool improves(double measurement) const;

  optim::Optimizer& optimizer_;
  PlateauOptions options_;
  double best_, rate_;
  std::int64_t bad_steps_ = 0;
};

}  // namespace lathe::nn::schedulers
