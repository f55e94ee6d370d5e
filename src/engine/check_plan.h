// LATHE_VERIFY=1: a memory plan is checked by what did not make it. Buffers that are alive together must not
// share bytes (verify/aliasing.h), and a kernel that writes over an input must be right on REF with both in
// the same bytes: REF notices an element that one iteration writes and another still reads.
#pragma once

#include <string>

#include "engine/memory_plan.h"

namespace lathe::engine {

// What is wrong with it, in words; empty if nothing is.
std::string plan_fault(const MemoryPlan& plan, const Schedule& schedule);

// Throws InternalError.
void check_plan(const MemoryPlan& plan, const Schedule& schedule);

}  // namespace lathe::engine
