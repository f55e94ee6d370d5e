// Places the waits and fences around asynchronous products of panels. A result is waited for where it is
// first needed, or at the end of a loop's step if only the next step needs it, so that the rest of the step
// overlaps with the product. If threads write panels, a fence before each barrier makes their writes visible
// to the unit.
#pragma once

#include "ir/program.h"

namespace lathe {

Program await_products(Program program);

}  // namespace lathe
