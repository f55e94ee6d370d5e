// Kernel form to steps. A value is computed in the innermost loop it depends on and nowhere deeper; Reduce,
// Fold and End open the loops they close. Where a kernel holds barriers or shared memory, its local ranges
// become threads: a store that depends on no local range is then done by the first thread, and a loop whose
// body holds a barrier ends each iteration with one, so that the next iteration's writes follow this one's
// reads.
#pragma once

#include "reference/code.h"

namespace lathe::reference {

Code code_of_kernel(Node kernel);

}  // namespace lathe::reference
