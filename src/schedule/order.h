// Orders planned steps so that every read sees the version of the buffer that it names.
#pragma once

#include <vector>

#include "schedule/planner.h"

namespace lathe {

// Positions of the steps in execution order. On cycles (two stores that read each other's old versions) the
// order is empty and `break_at` has a memory version to keep a copy of for each group of them.
struct StepOrder {
  std::vector<int> order;
  std::vector<std::vector<int>> next;  // by step: those that must come after it
  bool cycle = false;
  std::vector<Node> break_at;
};
StepOrder order_steps(const Plan& plan);

}  // namespace lathe
