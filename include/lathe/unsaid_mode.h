// Detects a forgotten training mode. Where no TrainingScope sets a mode, nor the module its own, dropout and
// batch norm compute as in inference, and an optimizer step with gradients of such results is likely a
// mistake. So these results are marked, and everything computed from them inherits the mark, gradients
// included. What a program assigned before (set_training) was for other nets, and says nothing about this
// one.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

bool mode_is_said();  // whether a TrainingScope of this thread set the mode
// Marks x, unless a mode was set or no gradients are recorded.
Tensor with_unsaid_mode(const Tensor& x);
bool has_unsaid_mode(const Tensor& x);

}  // namespace lathe
