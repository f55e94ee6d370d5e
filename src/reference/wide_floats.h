// Code that computes all floats in float64 and rounds only what it stores to params. A kernel with its
// options run this way means what the kernel means, up to rounding that no smaller dtype can see: where the
// two agree, a device that is further away has rounded.
#pragma once

#include "reference/code.h"

namespace lathe::reference {

void widen_floats(Code& code);

}  // namespace lathe::reference
