// Checks that every target is computed: if a pass or rule loses a store, this throws an error that names the
// value and the faulty step, so that no tensor is left without values.
#pragma once

#include <span>

#include "schedule/join_steps.h"
#include "schedule/planner.h"
#include "schedule/schedule.h"

namespace lathe {

// Every new buffer that a step reads was written by a step before it, and every one that a result is on
// by some step.
void check_outputs(const Plan& plan, std::span<const JoinedStep> joined, const Schedule& schedule,
                   const RuleChanges& rules);

}  // namespace lathe
