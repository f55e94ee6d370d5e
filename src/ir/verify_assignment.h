// Whether memory of a program's own (registers, panels, shared memory) is written before it is read, element
// by element. Loops run and stores happen as far as one can tell, so a fault is a read of what no store
// before it can have written: an accumulator that was never set, a panel that is read beyond what fills it.
#pragma once

#include <vector>

#include "ir/program.h"
#include "ir/verify.h"

namespace lathe {

std::vector<VerifyFault> verify_assignment(const Program& program);

}  // namespace lathe
