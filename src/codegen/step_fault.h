// Faults planted into the code generator by tests: after each step a function may change what the step gave,
// to show that whoever looks at results notices. Nothing is planted outside tests, and looking costs one
// load.
#pragma once

#include <functional>
#include <string_view>

#include "ir/node.h"
#include "ir/program.h"

namespace lathe {

struct StepFault {
  // Both may be empty. `step` is a step of lower_kernel or of apply_options.
  std::function<Node(std::string_view step, Node kernel)> kernel;
  std::function<void(std::string_view step, Program& program)> program;
};
// The faults of this thread; null for none. Returns those before.
const StepFault* set_step_fault(const StepFault* fault);

// What a step gave, or what the fault made of it.
Node after_step(const char* step, Node kernel);
void after_step(const char* step, Program& program);

}  // namespace lathe
