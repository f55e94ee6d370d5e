// Training mode (TrainingScope) that nobody has spoken of: dropout and batch norm then do what they do after
// training. Where they were computed so with gradients, a step with those gradients is likely a mistake. So
// their results carry a mark, which what is computed from them has too, gradients included.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

bool mode_is_said();  // by a TrainingScope of this thread
// x with the mark; as it is where a mode was said, or no gradients are recorded.
Tensor with_unsaid_mode(const Tensor& x);
bool has_unsaid_mode(const Tensor& x);

}  // namespace lathe
