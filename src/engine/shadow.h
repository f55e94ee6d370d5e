// LATHE_VERIFY=1: REF evaluates every kernel on the same inputs, and each element of the results is compared
// within its error bound (verify/expected.h). The first wrong element is an error that names the kernel, the
// element and both values.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "schedule/schedule.h"

namespace lathe::engine {

class Shadow {
 public:
  // Takes copies of all buffers (by param slot) before the kernel runs.
  Shadow(const Step& step, const MadeKernel& made, std::span<const Place> buffers, Bindings bindings);
  // Judges what the device wrote. Throws InternalError.
  void compare();

 private:
  // Races and bad accesses of the kernel as scheduled.
  void look_for_faults(const reference::Bindings& bindings) const;

  const Step& step_;
  const MadeKernel& made_;
  std::vector<Place> buffers_;
  Bindings bindings_;
  std::vector<reference::Array> before_;
};

}  // namespace lathe::engine
