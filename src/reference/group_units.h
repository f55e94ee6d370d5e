// What the threads of a warp, or of several, do together: products of fragments that they share, matrices
// read from shared memory, products of panels (ir/dot.h, ir/group_ops.h).
#pragma once

#include <cstddef>

#include "ir/node.h"
#include "reference/checked_memory.h"

namespace lathe::reference {

// Whether threads of a group wait for each other at this node or share what it names, so that they cannot run
// one after the other.
bool needs_group(Node node);

// How many neighbouring threads take a step together, or 0 where it is none of these.
std::size_t threads_together(const Step& step);
// So many threads from the first one on are at this step. False where it cannot be done, which is a fault.
bool run_together(const Step& step, std::size_t first, CheckedMemory& memory);

}  // namespace lathe::reference
