// Products of panels are given to a unit that takes its time: what has to stand around them in a program. The
// result is waited for where it is first needed, at the end of a loop's step if only the next step needs it,
// so that all else in the step is done meanwhile; and before each barrier what threads wrote to shared memory
// is made known to the unit.
#pragma once

#include "ir/program.h"

namespace lathe {

Program await_products(Program program);

}  // namespace lathe
