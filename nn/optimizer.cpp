// What all optimizers share: state, the step, and clipping.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lathe/modes.h"
#include "lathe/optim.h"
#include "lathe/unsaid_mode.h"

namespace lathe::nn::optim {
namespace {

// A number in memory of its own beside the parameters, as exact as they are. Made from host memory, so that
// no kernel is compiled for its value.
Tensor number_beside(const std::vector<Tensor>& parameters, double value) {
  const bool exact =
      std::ranges::all_of(parameters, [](const Tensor& p) { return p.dtype() == dtypes::float64; });
  return Tensor(std::vector<double>{value}, Shape{},
                {.dtype = exact ? dtypes::float64 : dtypes::float32, .device = parameters[0].device()});
}

void check_not_negative(std::string_view what, double value) {
  if (!(value >= 0)) throw UserError("optimizer", fmt::format("{} is {}, which is negative", what, value));
}

// Small updates are lost in 16-bit floats, so the arithmetic and the state are float32 at least.
DataType wide(DataType dtype) { return least_upper_dtype(dtype, dtypes::float32); }

}  // namespace

Optimizer::Optimizer(std::vector<Tensor> parameters, double lr) : rate_(lr) {
  check_not_negative("the learning rate", lr);
  if (parameters.empty()) throw UserError("optimizer", "the list of parameters is empty");
  for (Tensor& p : parameters) (p.requires_grad() ? parameters_ : others_).push_back(p);
  if (parameters_.empty())
    throw UserError("optimizer", "no parameter requires a gradient").help("pass nn::get_parameters(net)");
  for (const Tensor& p : parameters_)
    if (p.device() != parameters_[0].device())
      throw UserError("optimizer",
                      fmt::format("parameters on {} and {}", parameters_[0].device(), p.device()))
          .help("make an optimizer for each device and join them with OptimizerGroup");
  add_scalar("lr", lr);
}

std::size_t Optimizer::add_scalar(std::string name, double value) {
  scalars_.push_back({std::move(name), number_beside(parameters_, value)});
  return scalars_.size() - 1;
}

std::size_t Optimizer::add_state(std::string name) {
  List list{std::move(name), {}};
  for (const Tensor& p : parameters_)
    list.tensors.push_back(buffer(p.zeros_like({.dtype = wide(p.dtype())})));
  lists_.push_back(std::move(list));
  return lists_.size() - 1;
}

void Optimizer::finish() {
  if (UninitializedScope::active()) return;
  std::vector<Tensor> all = parameters_;
  all.insert(all.end(), others_.begin(), others_.end());
  for (const List& list : lists_) all.insert(all.end(), list.tensors.begin(), list.tensors.end());
  Tensor::realize_all(all);
}

std::vector<Tensor> Optimizer::schedule_step() {
  const auto unsaid = [](const Tensor& p) { return p.grad() && has_unsaid_mode(*p.grad()); };
  if (!Tensor::training() && std::ranges::any_of(parameters_, unsaid))
    throw UserError("optimizer",
                    "a step outside training mode, after dropout or batch norm was computed there")
        .note("there dropout does nothing and batch norm uses and keeps its old statistics")
        .help(
            "compute the loss and step inside of Tensor.train() (in C++: TrainingScope training; or "
            "net.train())");
  NoGradScope no_grad;
  left_out_.resize(parameters_.size());
  if (std::ranges::none_of(parameters_, [](const Tensor& p) { return p.grad().has_value(); }))
    throw UserError("optimizer", fmt::format("parameter 0 of shape {} has no gradient{}",
                                             to_string(parameters_[0].shape()),
                                             parameters_.size() == 1 ? "" : ", and no other has one"))
        .help("call loss.backward() before step()");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad())
      left_out_[i] = true;
    else if (left_out_[i] && counts_steps())
      throw UserError("optimizer",
                      fmt::format("parameter {} of shape {} has its first gradient after others made "
                                  "steps, which are counted for all parameters together",
                                  i, to_string(parameters_[i].shape())))
          .help("give such parameters an optimizer of their own, or a gradient of zeros in every step");
  }
  begin_step();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad()) continue;
    Tensor& p = parameters_[i];
    const DataType dtype = wide(p.dtype());
    p.assign(updated(i, p.detach().cast(dtype), descent(i).cast(dtype)).cast(p.dtype()));
  }
  std::vector<Tensor> changed = parameters_;
  changed.insert(changed.end(), others_.begin(), others_.end());
  for (const Scalar& s : scalars_) changed.push_back(s.tensor);
  for (const List& list : lists_) changed.insert(changed.end(), list.tensors.begin(), list.tensors.end());
  return changed;
}

Tensor Optimizer::descent(std::size_t i) const {
  const Tensor grad = parameters_[i].grad()->detach();
  return maximize_ ? -grad : grad;
}

void Optimizer::step() { Tensor::realize_all(schedule_step()); }

void Optimizer::zero_grad() {
  for (Tensor& p : parameters_) p.zero_grad();
}

double Optimizer::learning_rate() const {
  const auto held = lr().item<double>();
  const bool exact = lr().dtype() == dtypes::float64;
  // They differ once a state was loaded.
  return (exact ? rate_ : static_cast<double>(static_cast<float>(rate_))) == held ? rate_ : held;
}

void Optimizer::set_learning_rate(double lr) {
  check_not_negative("the learning rate", lr);
  rate_ = lr;
  scalars_[0].tensor.assign(number_beside(parameters_, lr)).realize();
}

void Optimizer::parts(Parts& p) {
  for (Scalar& s : scalars_) p(s.name, s.tensor);
  for (List& list : lists_) p(list.name, list.tensors);
}

OptimizerGroup::OptimizerGroup(std::vector<std::shared_ptr<Optimizer>> optimizers)
    : optimizers_(std::move(optimizers)) {
  if (optimizers_.empty()) throw UserError("OptimizerGroup", "the group has no optimizer");
}

std::vector<Tensor> OptimizerGroup::schedule_step() {
  std::vector<Tensor> changed;
  for (const auto& optimizer : optimizers_) {
    std::vector<Tensor> more = optimizer->schedule_step();
    changed.insert(changed.end(), more.begin(), more.end());
  }
  return changed;
}

void OptimizerGroup::step() { Tensor::realize_all(schedule_step()); }

void OptimizerGroup::zero_grad() {
  for (const auto& optimizer : optimizers_) optimizer->zero_grad();
}

void OptimizerGroup::parts(Parts& p) {
  for (std::size_t i = 0; i < optimizers_.size(); ++i) p(std::to_string(i), *optimizers_[i]);
}

namespace {

// The norm of all elements together.
Tensor common_norm(const std::vector<Tensor>& tensors, double norm_type) {
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) {
    const Tensor x = t.cast(dtypes::float32);
    parts.push_back(norm_type == 2          ? x.square().sum()
                    : std::isinf(norm_type) ? x.abs().max()
                                            : x.abs().pow(norm_type).sum());
  }
  const Tensor all = Tensor::stack(parts);
  if (norm_type == 2) return all.sum().sqrt();
  return std::isinf(norm_type) ? all.max() : all.sum().pow(1 / norm_type);
}

}  // namespace

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  check_not_negative("max_norm", max_norm);
  if (!(norm_type > 0))
    throw UserError("clip_grad_norm", fmt::format("norm_type is {} but must be above 0", norm_type));
  NoGradScope no_grad;
  std::vector<Tensor> grads;
  for (const Tensor& p : parameters)
    if (auto grad = p.grad()) grads.push_back(*grad);
  if (grads.empty())
    throw UserError("clip_grad_norm", "no parameter has a gradient").help("call backward() first");
  const Tensor norm = common_norm(grads, norm_type);
  // 1e-6 keeps an all-zero gradient from dividing by zero.
  const Tensor scale = (max_norm / (norm + 1e-6)).minimum(1.0);
  for (Tensor p : parameters)
    if (auto grad = p.grad()) p.set_grad((*grad * scale).cast(grad->dtype()));
  return norm;
}

void clip_grad_value(const std::vector<Tensor>& parameters, double limit) {
  check_not_negative("the limit", limit);
  NoGradScope no_grad;
  for (Tensor p : parameters)
    if (auto grad = p.grad()) p.set_grad(grad->clamp(-limit, limit));
}

}  // namespace lathe::nn::optim
