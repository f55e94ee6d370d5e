// Translates a program to steps: its list, inside loops over the launch. Threads of a group are run
// separately if the program has barriers or shared memory; otherwise they are ordinary iterations.
#pragma once

#include "ir/program.h"
#include "reference/code.h"

namespace lathe::reference {

Code code_of_program(const Program& program);

}  // namespace lathe::reference
