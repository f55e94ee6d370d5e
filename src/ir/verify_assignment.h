// Verifies that a program's local memory (registers, panels, shared memory) is written before it is read,
// element by element. Where it is unknown whether a loop runs or a store happens, it is assumed to; so a
// fault is a read that no earlier store can have written: an uninitialized accumulator, or a panel read
// beyond what was filled.
#pragma once

#include <vector>

#include "ir/program.h"
#include "ir/verify.h"

namespace lathe {

std::vector<VerifyFault> verify_assignment(const Program& program);

}  // namespace lathe
