// Object code to an address, by LLVM's LLJIT. Every object gets a symbol table of its own, so that equal
// kernel names never meet; tables of unloaded objects are used again.
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/OrcEE.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/llvm/code_memory.h"
#include "backends/cpu/llvm/compile.h"

namespace lathe::backends {

struct LlvmLoaded {
  LLVMOrcJITDylibRef table = nullptr;
  std::size_t object_bytes = 0;  // until it is linked
};

namespace {

bool failed(LLVMErrorRef e, char** error) {
  if (e == nullptr) return false;
  char* text = LLVMGetErrorMessage(e);
  *error = strdup(text);
  LLVMDisposeErrorMessage(text);
  return true;
}

struct Jit {
  std::mutex mutex;
  LLVMOrcLLJITRef jit = nullptr;
  std::vector<LLVMOrcJITDylibRef> free_tables;
  CodeMemory memory;
  KernelMemory reserved;  // for the object that is linked next
  int made = 0;
};

Jit& jit() {
  static Jit* one = new Jit;  // never destroyed: kernels may run while the process ends
  return *one;
}

// Missing symbols are reported by the lookup that needed them; nothing is printed.
void ignore_error(void*, LLVMErrorRef e) { LLVMConsumeError(e); }

// Where LLVM puts the sections of an object. It links on the thread that looks a symbol up and frees on the
// one that clears its table: both hold the mutex. The memory was reserved before, because a null ends the
// process.
LLVMOrcObjectLayerRef linking_layer(void*, LLVMOrcExecutionSessionRef session, const char*) {
  return LLVMOrcCreateRTDyldObjectLinkingLayerWithMCJITMemoryManagerLikeCallbacks(
      session, nullptr, [](void*) -> void* { return new KernelMemory(std::exchange(jit().reserved, {})); },
      [](void*) {},
      [](void* kernel, std::uintptr_t size, unsigned alignment, unsigned, const char*) {
        return CodeMemory::take_code(*static_cast<KernelMemory*>(kernel), size, alignment);
      },
      [](void* kernel, std::uintptr_t size, unsigned alignment, unsigned, const char*, LLVMBool) {
        return CodeMemory::take_data(*static_cast<KernelMemory*>(kernel), size, alignment);
      },
      [](void* kernel, char** error) -> LLVMBool {
        if (jit().memory.seal(*static_cast<KernelMemory*>(kernel))) return 0;
        *error = strdup("the system does not let memory become executable (mprotect)");
        return 1;
      },
      [](void* kernel) {
        jit().memory.release(*static_cast<KernelMemory*>(kernel));
        delete static_cast<KernelMemory*>(kernel);
      });
}

bool start(Jit& j, char** error) {
  if (j.jit != nullptr) return true;
  initialize_x86();
  LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
  LLVMOrcLLJITBuilderSetObjectLinkingLayerCreator(builder, linking_layer, nullptr);
  if (failed(LLVMOrcCreateLLJIT(&j.jit, builder), error)) return false;
  LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(j.jit), ignore_error, nullptr);
  return true;
}

// A table where names that the object does not define (memcpy, fmaf, exp2f) are found in this process.
LLVMOrcJITDylibRef new_table(Jit& j, char** error) {
  if (!j.free_tables.empty()) {
    LLVMOrcJITDylibRef table = j.free_tables.back();
    j.free_tables.pop_back();
    return table;
  }
  std::string name = "kernel" + std::to_string(j.made++);
  LLVMOrcJITDylibRef table =
      LLVMOrcExecutionSessionCreateBareJITDylib(LLVMOrcLLJITGetExecutionSession(j.jit), name.c_str());
  LLVMOrcDefinitionGeneratorRef process = nullptr;
  char prefix = LLVMOrcLLJITGetGlobalPrefix(j.jit);
  if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&process, prefix, nullptr, nullptr), error))
    return nullptr;
  LLVMOrcJITDylibAddGenerator(table, process);
  return table;
}

struct Answer {
  void* address = nullptr;
  char** error = nullptr;
};

void on_answer(LLVMErrorRef e, LLVMOrcCSymbolMapPairs pairs, std::size_t count, void* context) {
  auto* answer = static_cast<Answer*>(context);
  if (failed(e, answer->error)) return;
  if (count == 1) answer->address = reinterpret_cast<void*>(pairs[0].Sym.Address);
}

}  // namespace

LlvmLoaded* load_object(const char* object, std::size_t size, char** error) {
  *error = nullptr;
  Jit& j = jit();
  std::lock_guard lock(j.mutex);
  if (!start(j, error)) return nullptr;
  LLVMOrcJITDylibRef table = new_table(j, error);
  if (table == nullptr) return nullptr;
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(object, size, "kernel.o");
  if (failed(LLVMOrcLLJITAddObjectFile(j.jit, table, buffer), error)) {  // takes the buffer
    j.free_tables.push_back(table);
    return nullptr;
  }
  return new LlvmLoaded{table, size};
}

void* find_symbol(LlvmLoaded* loaded, const char* symbol, char** error) {
  *error = nullptr;
  Jit& j = jit();
  std::lock_guard lock(j.mutex);
  if (loaded->object_bytes != 0 && !j.memory.reserve(j.reserved, std::exchange(loaded->object_bytes, 0))) {
    *error = strdup("no memory for code (mmap)");
    return nullptr;
  }
  LLVMOrcExecutionSessionRef session = LLVMOrcLLJITGetExecutionSession(j.jit);
  LLVMOrcCJITDylibSearchOrderElement order[] = {{loaded->table, LLVMOrcJITDylibLookupFlagsMatchAllSymbols}};
  LLVMOrcCLookupSetElement wanted[] = {
      {LLVMOrcLLJITMangleAndIntern(j.jit, symbol), LLVMOrcSymbolLookupFlagsRequiredSymbol}};
  Answer answer{nullptr, error};
  // Everything is linked on this thread, so the answer is there when the call returns.
  LLVMOrcExecutionSessionLookup(session, LLVMOrcLookupKindStatic, order, 1, wanted, 1, on_answer, &answer);
  j.memory.release(j.reserved);  // left where nothing was linked
  if (answer.address == nullptr && *error == nullptr) *error = strdup("symbol not found");
  return answer.address;
}

void unload_object(LlvmLoaded* loaded) {
  Jit& j = jit();
  std::lock_guard lock(j.mutex);
  // Clearing also removes the generator's memory of process symbols, not the generator.
  LLVMErrorRef e = LLVMOrcJITDylibClear(loaded->table);
  if (e == nullptr)
    j.free_tables.push_back(loaded->table);
  else
    LLVMConsumeError(e);
  delete loaded;
}

}  // namespace lathe::backends
