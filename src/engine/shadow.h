// LATHE_VERIFY=1: every kernel also runs on REF with the same inputs, and the results are compared within
// bounds that follow from the dtypes. The first difference is an error that names the kernel, the element and
// both values.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels.h"
#include "reference/array.h"
#include "runtime/executor.h"
#include "schedule/schedule.h"

namespace lathe::engine {

class Shadow {
 public:
  // Takes copies of all buffers (by param slot) before the kernel runs.
  Shadow(const Step& step, const MadeKernel& made, std::span<const Place> buffers, Bindings bindings);
  // Runs REF and compares with what the device wrote. Throws InternalError.
  void compare();

 private:
  const Step& step_;
  const MadeKernel& made_;
  std::vector<Place> buffers_;
  Bindings bindings_;
  std::vector<reference::Array> before_;  // REF writes its results here
};

}  // namespace lathe::engine
