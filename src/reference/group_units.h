// What the threads of a warp, or of several, do together: products of fragments that they share, matrices
// read from shared memory, products of panels (ir/dot.h, ir/group_ops.h).
#pragma once

#include <cstddef>

#include "reference/checked_memory.h"

namespace lathe::reference {

// How many neighbouring threads take a step together, or 0 where it is none of these.
std::size_t threads_together(const Step& step);
// So many threads from the first one on stand at this step. False where it cannot be done, which is a fault.
bool run_together(const Step& step, std::size_t first, CheckedMemory& memory);

}  // namespace lathe::reference
