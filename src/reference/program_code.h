// Program form to steps: the list as it stands, inside loops over the launch. Threads of a group run apart
// where the program has barriers or shared memory; elsewhere they are iterations like any others.
#pragma once

#include "ir/program.h"
#include "reference/code.h"

namespace lathe::reference {

Code code_of_program(const Program& program);

}  // namespace lathe::reference
