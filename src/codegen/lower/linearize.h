// The last pass: a lowered kernel as a list in execution order. Every node goes to the innermost loop among
// those it depends on, so whatever does not change in a loop stands before it; loops nest as the Ends that
// close them say. Within a scope operands come just before their first user, which keeps few values alive at
// a time.
#pragma once

#include "codegen/kernel/lowering.h"
#include "ir/program.h"

namespace lathe {

// Fills code, params and variables, shared_bytes and the launch sizes.
Program linearize(Node kernel, const Launch& launch);

}  // namespace lathe
