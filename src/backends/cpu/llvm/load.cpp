// Object code to an address, by LLVM's LLJIT. Every object gets a symbol table of its own, so that equal
// kernel names never meet; tables of unloaded objects are used again.
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cpu/llvm/compile.h"

namespace lathe::backends {

struct LlvmLoaded {
  LLVMOrcJITDylibRef table = nullptr;
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
  int made = 0;
};

Jit& jit() {
  static Jit* one = new Jit;  // never destroyed: kernels may run while the process ends
  return *one;
}

// Missing symbols are reported by the lookup that needed them; nothing is printed.
void ignore_error(void*, LLVMErrorRef e) { LLVMConsumeError(e); }

bool start(Jit& j, char** error) {
  if (j.jit != nullptr) return true;
  initialize_x86();
  if (failed(LLVMOrcCreateLLJIT(&j.jit, nullptr), error)) return false;
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
  return new LlvmLoaded{table};
}

void* find_symbol(LlvmLoaded* loaded, const char* symbol, char** error) {
  *error = nullptr;
  Jit& j = jit();
  std::lock_guard lock(j.mutex);
  LLVMOrcExecutionSessionRef session = LLVMOrcLLJITGetExecutionSession(j.jit);
  LLVMOrcCJITDylibSearchOrderElement order[] = {{loaded->table, LLVMOrcJITDylibLookupFlagsMatchAllSymbols}};
  LLVMOrcCLookupSetElement wanted[] = {
      {LLVMOrcLLJITMangleAndIntern(j.jit, symbol), LLVMOrcSymbolLookupFlagsRequiredSymbol}};
  Answer answer{nullptr, error};
  // Everything is linked on this thread, so the answer is there when the call returns.
  LLVMOrcExecutionSessionLookup(session, LLVMOrcLookupKindStatic, order, 1, wanted, 1, on_answer, &answer);
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
