// The functions behind the table of interface.h.
#pragma once

#include "backends/cpu/llvm/interface.h"

namespace lathe::backends {

// Makes LLVM's x86 code generator known; safe to call again.
void initialize_x86();

LlvmBytes compile_object(const char* text, std::size_t size, const char* cpu, const char* features,
                         const char* passes, int level, char** error);
LlvmBytes compile_assembly(const char* text, std::size_t size, const char* cpu, const char* features,
                           const char* passes, int level, char** error);

LlvmLoaded* load_object(const char* object, std::size_t size, char** error);
void* find_symbol(LlvmLoaded* loaded, const char* symbol, char** error);
void unload_object(LlvmLoaded* loaded);

}  // namespace lathe::backends
