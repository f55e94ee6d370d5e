// Finds and loads liblathe_llvm.so, once, when it is first needed.
#pragma once

#include <string>

#include "backends/cpu/llvm/interface.h"

namespace lathe::backends {

// Null where the module cannot be loaded; `why`, if given, then says why.
const LlvmInterface* llvm_module(std::string* why = nullptr);

// The same, but throws DeviceError.
const LlvmInterface& require_llvm_module();

}  // namespace lathe::backends
