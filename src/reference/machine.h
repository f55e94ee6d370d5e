// Runs Code: a driver executes the steps; the threads of a group are separate interpreters, run in random
// order from barrier to barrier. Every access is checked.
#pragma once

#include <span>

#include "reference/code.h"
#include "reference/reference.h"

namespace lathe::reference {

EvalReport run_code(const Code& code, std::span<const View> params, const Bindings& bindings,
                    const EvalOptions& options);

}  // namespace lathe::reference
