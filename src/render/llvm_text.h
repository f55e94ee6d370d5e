// Programs as textual LLVM IR, already vectorised: the code generator needs no optimiser, only registers for
// the local variables. The module defines one function
//   void name(ptr buffers, ptr variables, i64 part, ptr scratch)
// where buffers[i] is the memory of param i, variables[i] an int64, part the index of this part of the
// launch.
#pragma once

#include <string>

#include "ir/program.h"
#include "target/target.h"

namespace lathe::render {

std::string llvm_text(const Program& program, const Target& target);

}  // namespace lathe::render
