// Kernel form to steps. A value is computed in the innermost loop it depends on and nowhere deeper; Reduce,
// Fold and End open the loops they close, and Ends over the same ranges with no order between them share one.
// Where a kernel holds barriers or shared memory, its local ranges become threads, and a store that depends
// on no local range is done by the first thread.
#pragma once

#include "reference/code.h"

namespace lathe::reference {

Code code_of_kernel(Node kernel);

}  // namespace lathe::reference
