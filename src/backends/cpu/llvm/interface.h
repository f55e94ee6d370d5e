// What liblathe_llvm.so offers: text to object code, object code to an address. LLVM is a large library, so
// it is behind this table and only loaded when something must be compiled or run. Plain C types only: the two
// sides share no C++ objects. A failure returns an error text instead of a result; texts and blocks are given
// back with `release`.
#pragma once

#include <cstddef>

namespace lathe::backends {

struct LlvmBytes {
  char* data;  // null where it failed
  std::size_t size;
};

// One object file in memory, ready to run.
struct LlvmLoaded;

struct LlvmInterface {
  const char* version;  // "19.1.7"
  // Passes run before code generation, by LLVM's names, and the level 0..3 of the code generator.
  LlvmBytes (*compile)(const char* text, std::size_t size, const char* cpu, const char* features,
                       const char* passes, int level, char** error);
  // The same code as assembly, for people.
  LlvmBytes (*assembly)(const char* text, std::size_t size, const char* cpu, const char* features,
                        const char* passes, int level, char** error);
  LlvmLoaded* (*load)(const char* object, std::size_t size, char** error);
  void* (*find)(LlvmLoaded* loaded, const char* symbol, char** error);
  void (*unload)(LlvmLoaded* loaded);
  void (*release)(void* block);
};

inline constexpr const char* kLlvmEntry = "lathe_llvm_interface";
using LlvmEntry = const LlvmInterface* (*)();

}  // namespace lathe::backends
