// The one symbol the module exports.
#include <llvm-c/Core.h>

#include <cstdlib>
#include <string>

#include "backends/cpu/llvm/compile.h"

namespace lathe::backends {
namespace {

const char* version() {
  static const std::string text = [] {
    unsigned major = 0, minor = 0, patch = 0;
    LLVMGetVersion(&major, &minor, &patch);
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  }();
  return text.c_str();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const LlvmInterface* lathe_llvm_interface() {
  static const LlvmInterface table = {version(),   compile_object, compile_assembly, load_object,
                                      find_symbol, unload_object,  std::free};
  return &table;
}

}  // namespace lathe::backends
