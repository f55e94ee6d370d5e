// Products of panels are given to a unit that takes its time: what has to stand around them in a program. The
// result is waited for where it is first needed, at the end of a loop's step if only the next step needs it,
// so that all else in the step is done meanwhile; and where threads write panels, what they wrote is made
// known to the unit before each barrier.
#pragma once

#include "ir/program.h"

namespace lathe {

Program await_products(Program program);

}  // namespace lathe
