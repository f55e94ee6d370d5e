// Turns a lowered kernel into a list of instructions in execution order. Every node goes to the innermost
// loop it depends on, so loop-invariant values are computed before the loop; the Ends that close loops define
// how they nest. Within a scope operands come just before their first user, which keeps few values alive at a
// time.
#pragma once

#include "codegen/kernel/lowering.h"
#include "ir/program.h"

namespace lathe {

// Fills code, params and variables, shared_bytes and the launch sizes.
Program linearize(Node kernel, const Launch& launch);

}  // namespace lathe
