// Guards accesses that could not be proved: the index is checked when the kernel runs (Op::Check). An
// out-of-bounds guarded load gives 0, a guarded store does nothing, and the fault is reported.
#pragma once

#include "verify/bounds.h"

namespace lathe::verify {

// The kernel with every unproved access of the report guarded; all of the result is then proved. Accesses
// that were refuted stay as they are: they are wrong, and hiding that helps nobody.
Node guard_unproved(Node kernel, const BoundsReport& report);

}  // namespace lathe::verify
