// The one list of steps: from a tensor graph to a printable program, in order. docs/reference/steps.md is
// made from the same rows.
#pragma once

#include <vector>

#include "pipeline/compile.h"

namespace lathe::engine {

struct ListedStep {
  const char* part;  // "schedule", "prove", "options" or "lower"
  StepInfo step;
};
std::vector<ListedStep> all_steps();

// Between scheduling and options: a kernel's accesses are proved to stay inside their memory, or guarded.
inline constexpr StepInfo kGuardUnproved{"guard_unproved", "accesses not proved to be in bounds get guards"};

}  // namespace lathe::engine
