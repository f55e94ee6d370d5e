// LATHE_WIDE=1: a kernel is not run by the device: REF computes it, floats in float64, and rounds what it
// stores, once. Where a command that fails passes so, rounding is to blame for its failure.
#pragma once

#include <span>

#include "engine/kernels.h"
#include "runtime/executor.h"
#include "schedule/schedule.h"

namespace lathe::engine {

// False where the device has to run the kernel: it takes REF too long, or reports an index.
bool run_wide(const Step& step, std::span<const Place> buffers, Bindings bindings);

}  // namespace lathe::engine
