// Per-thread modes of tensor programs: whether gradients are recorded, whether layers are trained, and in
// which dtype products are computed.
#pragma once

#include <optional>

#include "lathe/dtypes.h"

namespace lathe {

// Whether new operations on this thread take part in backward().
bool grad_enabled();
void set_grad_enabled(bool on);  // for this thread, from now on

// Training mode of this thread from now on. Unlike a TrainingScope, this does not say that a step outside of
// training mode is meant (lathe/unsaid_mode.h).
void set_training(bool on);

// Turns gradients on or off for operations made inside the scope. NoGradScope is GradScope(false).
class GradScope {
 public:
  explicit GradScope(bool on);
  ~GradScope();
  GradScope(const GradScope&) = delete;
  GradScope& operator=(const GradScope&) = delete;

 private:
  bool before_;
};

// Mixed precision. Inside the scope, products (matmul, linear, convolutions, einsum) of 32-bit floats round
// their operands to `dtype` and have that dtype; softmax, norms and losses of such values are computed in 32
// bits. A scope without a dtype turns an outer scope off.
//
//   AutocastScope autocast(dtypes::bfloat16);
//   Tensor loss = net(x).cross_entropy(y);
class AutocastScope {
 public:
  explicit AutocastScope(std::optional<DataType> dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  static std::optional<DataType> active();  // dtype of this thread's innermost scope

 private:
  std::optional<DataType> before_;
};

}  // namespace lathe
