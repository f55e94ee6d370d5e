// Optimizers. After loss.backward(), step() updates every parameter and the optimizer's state in place, in
// one realize call. The learning rate and everything else that changes between steps are tensors, so a
// captured step sees the changes. All state is named by parts(), so it is saved and loaded like a net's.
#pragma once

#include <memory>

#include "lathe/nn/module.h"

namespace lathe::nn::optim {

class Optimizer : public Module {
 public:
  // The parameters may include tensors without gradients (running statistics); step() realizes them too.
  Optimizer(std::vector<Tensor> parameters, double lr);

  // Builds the graph of a step and returns the tensors to realize. A parameter without a gradient stays as it
  // is. Throws UserError outside training mode, or if no parameter has a gradient.
  std::vector<Tensor> schedule_step();
  // Realizes schedule_step().
  void step();
  void zero_grad();

  double learning_rate() const;
  void set_learning_rate(double lr);
  const std::vector<Tensor>& parameters() const { return parameters_; }

  // Whether steps go along the gradient instead of against it.
  void set_maximize(bool on) { maximize_ = on; }
  bool maximize() const { return maximize_; }

  // "lr", then the optimizer's own state, one tensor per parameter by position: "momentum.0", ...
  void parts(Parts& p) override;

 protected:
  // For constructors: adds state with this name, one zero tensor per parameter with its shape (float32 for
  // narrower floats). Returns its number.
  std::size_t add_state(std::string name);
  // The same for a single number with this initial value.
  std::size_t add_scalar(std::string name, double value);
  // Realizes the state: a captured step needs it in memory.
  void finish();

  // Whether what a step does depends on how many there were: a parameter must then take part from the first
  // on.
  virtual bool counts_steps() const { return false; }
  // What parameter i's step goes against: its gradient, with the sign turned to maximize.
  Tensor descent(std::size_t i) const;
  // Updates the state that changes once per step, before any parameter.
  virtual void begin_step() {}
  // Assigns the new state of parameter i and returns its new value. Narrow floats are widened to float32.
  virtual Tensor updated(std::size_t i, const Tensor& value, const Tensor& grad) = 0;

  const Tensor& lr() const { return scalars_[0].tensor; }
  Tensor& scalar(std::size_t which) { return scalars_[which].tensor; }
  Tensor& state(std::size_t which, std::size_t i) { return lists_[which].tensors[i]; }

 private:
  struct Scalar {
    std::string name;
    Tensor tensor;
  };
  struct List {
    std::string name;
    std::vector<Tensor> tensors;
  };
  std::vector<Tensor> parameters_, others_;  // with gradients; without
  std::vector<Scalar> scalars_;
  std::vector<List> lists_;
  std::vector<bool> left_out_;  // whether a parameter had no gradient in some step
  bool maximize_ = false;
  double rate_;  // the last value written to lr, before rounding
};

// Several optimizers stepped together, each with its own parameters and learning rate.
class OptimizerGroup : public Module {
 public:
  explicit OptimizerGroup(
      std::vector<std::shared_ptr<Optimizer>> optimizers);  // shared: schedulers hold them too
  std::vector<Tensor> schedule_step();
  void step();
  void zero_grad();
  Optimizer& operator[](std::size_t i) { return *optimizers_.at(i); }
  std::size_t size() const { return optimizers_.size(); }
  void parts(Parts& p) override;

 private:
  std::vector<std::shared_ptr<Optimizer>> optimizers_;
};

struct SGDOptions {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  bool classic = false;
  double dampening = 0;  // not with nesterov
};
// v = momentum * v + (1 - dampening) * g;  p -= lr * v  (nesterov: lr * (g + momentum * v)), where g includes
// weight_decay * p; the first step has no dampening.
// Classic: v = momentum * v + lr * g;  p -= v, so that a new learning rate affects only new gradients.
class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, double lr = 0.001, const SGDOptions& options = {});

 protected:
  bool counts_steps() const override { return dampened(); }
  void begin_step() override;
  Tensor updated(std::size_t i, const Tensor& value, const Tensor& grad) override;

 private:
  bool dampened() const { return options_.momentum != 0 && options_.dampening != 0; }

  SGDOptions options_;
  Tensor share_;  // of the gradient in this step, where dampened
};

struct LARSOptions {
  double momentum = 0.9, weight_decay = 1e-4;
  bool nesterov = false;
  double trust = 0.001;  // 0: no scaling
  bool classic = true;
};
// SGD whose learning rate is scaled per parameter by trust * |p| / (|g| + weight_decay * |p|).
class LARS : public Optimizer {
 public:
  explicit LARS(std::vector<Tensor> parameters, double lr = 0.001, const LARSOptions& options = {});

 protected:
  Tensor updated(std::size_t i, const Tensor& value, const Tensor& grad) override;

 private:
  LARSOptions options_;
};

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
// m and v are running means of g and g^2; u = m / c1 / (sqrt(v / c2) + eps), where c1 and c2 are the sums of
// the weights in the means. p -= lr * (u + weight_decay * p): the decay is not part of the gradient.
class AdamW : public Optimizer {
 public:
  explicit AdamW(std::vector<Tensor> parameters, double lr = 0.001,
                 const AdamOptions& options = {.weight_decay = 0.01});

 protected:
  bool counts_steps() const override { return true; }
  void begin_step() override;
  Tensor updated(std::size_t i, const Tensor& value, const Tensor& grad) override;
  // u + weight_decay * p.
  Tensor direction(std::size_t i, const Tensor& value, const Tensor& grad);

 private:
  AdamOptions options_;
};

// AdamW whose weight decay, if any, is part of the gradient.
class Adam : public AdamW {
 public:
  explicit Adam(std::vector<Tensor> parameters, double lr = 0.001, const AdamOptions& options = {});

 protected:
  Tensor updated(std::size_t i, const Tensor& value, const Tensor& grad) override;

 private:
  double decay_;
};

// AdamW whose direction is scaled per parameter by |p| / |direction|.
class LAMB : public AdamW {
 public:
  explicit LAMB(std::vector<Tensor> parameters, double lr = 0.001,
                const AdamOptions& options = {.eps = 1e-6, .weight_decay = 0});

 protected:
  Tensor updated(std::size_t i, const Tensor& value, const Tensor& grad) override;
};

struct MuonOptions {
  double momentum = 0.95, weight_decay = 0.1;
  bool nesterov = true;
  std::int64_t steps = 5;
  std::vector<double> coefficients = {3.4445, -4.775, 2.0315};
};
// Momentum whose direction, as a matrix (first axis by the rest), is orthogonalized by Newton-Schulz steps.
// For parameters with at least two axes; use an OptimizerGroup for the others.
class Muon : public Optimizer {
 public:
  explicit Muon(std::vector<Tensor> parameters, double lr = 0.02, const MuonOptions& options = {});

 protected:
  Tensor updated(std::size_t i, const Tensor& value, const Tensor& grad) override;

 private:
  MuonOptions options_;
};

// Scales all gradients so that their total norm is at most max_norm; returns the norm before (a scalar).
// `norm_type` is the norm's exponent; infinity is the largest magnitude.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2);
// Clamps every element of every gradient to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& parameters, double limit);

}  // namespace lathe::nn::optim
