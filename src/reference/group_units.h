// What the threads of a warp, or of several, do together: products of fragments that they share, matrices
// read from shared memory, products of panels (ir/dot.h, ir/group_ops.h).
#pragma once

#include <cstddef>

#include "reference/checked_memory.h"

namespace lathe::reference {

// All `threads` of the group stand at this step. False where it cannot be done, which is a fault.
bool run_together(const Step& step, std::size_t threads, CheckedMemory& memory);

}  // namespace lathe::reference
