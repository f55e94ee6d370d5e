#include "codegen/step_fault.h"

#include <utility>

namespace lathe {
namespace {
thread_local const StepFault* planted = nullptr;
}  // namespace

const StepFault* set_step_fault(const StepFault* fault) { return std::exchange(planted, fault); }

Node after_step(const char* step, Node kernel) {
  return planted == nullptr || !planted->kernel ? kernel : planted->kernel(step, kernel);
}

void after_step(const char* step, Program& program) {
  if (planted != nullptr && planted->program) planted->program(step, program);
}

}  // namespace lathe
