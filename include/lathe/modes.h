// Modes of this thread that tensor programs are written in: whether gradients are recorded, and in which
// dtype products are computed.
#pragma once

#include <optional>

#include "lathe/dtypes.h"

namespace lathe {

// Whether operations made now take part in backward().
bool grad_enabled();
void set_grad_enabled(bool on);  // from now on, in this thread

// Operations made inside take part in backward(), or do not; NoGradScope is the short form of the second.
class GradScope {
 public:
  explicit GradScope(bool on);
  ~GradScope();
  GradScope(const GradScope&) = delete;
  GradScope& operator=(const GradScope&) = delete;

 private:
  bool before_;
};

// Mixed precision: inside, products (matmul, linear, convolutions, einsum) of 32-bit floats are computed from
// operands rounded to `dtype` and have that dtype; softmax, norms and losses of such values are computed in
// 32 bits. Without a dtype nothing is changed inside, also where another scope is around.
//
//   AutocastScope autocast(dtypes::bfloat16);
//   Tensor loss = net(x).cross_entropy(y);
class AutocastScope {
 public:
  explicit AutocastScope(std::optional<DataType> dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  static std::optional<DataType> active();  // of the innermost scope of this thread

 private:
  std::optional<DataType> before_;
};

}  // namespace lathe
