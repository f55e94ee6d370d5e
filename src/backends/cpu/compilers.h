// The two ways from a program to code for a CPU: LLVM in process, and C source through the system's compiler.
// Both give the same result bits.
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"

namespace lathe::backends {

// What LLVM runs before its code generator where a kernel has arrays on the stack: their elements become
// registers. All other locals are values already, and nothing is computed twice in what is printed.
inline constexpr const char* kLlvmPasses = "sroa";

// Parts of the code generator that cost a fifth of its time and leave our loops no faster: addresses are
// written as sums of loop variables already, and these CPUs reorder instructions themselves.
inline constexpr const char* kLlvmOptions[] = {"-disable-lsr", "-disable-post-ra", "-enable-misched=0"};

// Throws DeviceError where the LLVM module cannot be loaded.
std::shared_ptr<const Compiler> make_llvm_compiler(Target target);
// Throws DeviceError where no C compiler is found.
std::shared_ptr<const Compiler> make_c_compiler(Target target);

// By LATHE_CPU; where LLVM cannot be loaded, the C compiler.
std::shared_ptr<const Compiler> make_cpu_compiler(Target target);

// Full path of the C compiler: cc, gcc or clang, the first that PATH has; empty where there is none.
std::string find_c_compiler();

}  // namespace lathe::backends
