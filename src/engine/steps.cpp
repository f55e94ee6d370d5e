#include "engine/steps.h"

#include "codegen/codegen.h"
#include "schedule/schedule.h"

namespace lathe::engine {

std::vector<ListedStep> all_steps() {
  std::vector<ListedStep> out;
  for (const StepInfo& step : schedule_steps()) out.push_back({"schedule", step});
  out.push_back({"prove", kGuardUnproved});
  for (const StepInfo& step : option_steps()) out.push_back({"options", step});
  for (const StepInfo& step : lower_steps()) out.push_back({"lower", step});
  return out;
}

}  // namespace lathe::engine
