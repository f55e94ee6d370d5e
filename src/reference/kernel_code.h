// Kernel form to steps. A value is computed in the innermost loop it depends on and nowhere deeper; Reduce,
// Fold and End open the loops they close, and Ends over the same ranges with no order between them share one.
// Where a kernel holds barriers or shared memory, its local ranges become threads, and a store that depends
// on no local range is done by the first thread.
#pragma once

#include <span>

#include "reference/code.h"

namespace lathe::reference {

Code code_of_kernel(Node kernel);

// The same for one store of a kernel as scheduled, at one position: its output ranges, in order, are
// registers that are given. Private memory takes no registers.
Code code_of_store(Node store, std::span<const Node> ranges);

}  // namespace lathe::reference
