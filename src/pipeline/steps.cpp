#include "pipeline/steps.h"

#include <fmt/format.h>

namespace lathe {

void blame_step(const StepInfo& step, const StepState& state, const Faults& faults) {
  if (faults.empty()) return;
  const Blame* blame = state.compile.blame;
  throw_faults(faults, state.form(), step.name, blame == nullptr ? "" : blame->rule_of(faults[0].node));
}

void add_step_name(InternalError& error, const StepInfo& step) {
  error.note(fmt::format("in step {}: {}", step.name, step.purpose));
}

}  // namespace lathe
