// Text to object code through LLVM's C interface. Every call has a context of its own and every thread a
// machine, so threads never meet.
#include "backends/cpu/llvm/compile.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cpu/compilers.h"

namespace lathe::backends {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

void set_error(char** error, const char* text) { *error = strdup(text); }

// A message that LLVM owns, copied and disposed.
void take_message(char** error, char* message) {
  set_error(error, message != nullptr ? message : "unknown error");
  if (message != nullptr) LLVMDisposeMessage(message);
}

struct Context {
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module = nullptr;
  LLVMTargetMachineRef machine = nullptr;  // the thread's
  std::string diagnostics;
  ~Context() {
    if (module != nullptr) LLVMDisposeModule(module);
    LLVMContextDispose(context);
  }
};

// Errors of the code generator reach us here; without a handler LLVM would end the process.
void on_diagnostic(LLVMDiagnosticInfoRef info, void* context) {
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  char* text = LLVMGetDiagInfoDescription(info);
  static_cast<Context*>(context)->diagnostics += text;
  LLVMDisposeMessage(text);
}

LLVMTargetMachineRef make_machine(const char* cpu, const char* features, int level, char** error) {
  LLVMTargetRef target = nullptr;
  char* message = nullptr;
  if (LLVMGetTargetFromTriple(kTriple, &target, &message)) {
    take_message(error, message);
    return nullptr;
  }
  return LLVMCreateTargetMachine(target, kTriple, cpu, features, static_cast<LLVMCodeGenOptLevel>(level),
                                 LLVMRelocPIC, LLVMCodeModelDefault);
}

// What LLVM knows of the target a thread compiled for last: to work that out again takes as long as a tenth
// of a small kernel.
struct KeptMachine {
  std::string target;
  LLVMTargetMachineRef machine = nullptr;
  ~KeptMachine() {
    if (machine != nullptr) LLVMDisposeTargetMachine(machine);
  }
};

LLVMTargetMachineRef machine_for(const char* cpu, const char* features, int level, char** error) {
  thread_local KeptMachine kept;
  std::string target = std::string(cpu) + " " + features + " " + std::to_string(level);
  if (kept.machine != nullptr && kept.target == target) return kept.machine;
  LLVMTargetMachineRef made = make_machine(cpu, features, level, error);
  if (made == nullptr) return nullptr;
  if (kept.machine != nullptr) LLVMDisposeTargetMachine(kept.machine);
  kept.machine = made;
  kept.target = std::move(target);
  return made;
}

bool prepare(Context& c, const char* text, std::size_t size, const char* cpu, const char* features,
             const char* passes, int level, char** error) {
  initialize_x86();
  LLVMContextSetDiagnosticHandler(c.context, on_diagnostic, &c);
  char* message = nullptr;
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, size, "kernel");
  if (LLVMParseIRInContext(c.context, buffer, &c.module, &message)) {  // takes the buffer
    c.module = nullptr;
    take_message(error, message);
    return false;
  }
  if (LLVMVerifyModule(c.module, LLVMReturnStatusAction, &message)) {
    take_message(error, message);
    return false;
  }
  LLVMDisposeMessage(message);
  c.machine = machine_for(cpu, features, level, error);
  if (c.machine == nullptr) return false;
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(c.machine);
  LLVMSetModuleDataLayout(c.module, layout);
  LLVMDisposeTargetData(layout);
  if (passes == nullptr || *passes == 0) return true;
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef failed = LLVMRunPasses(c.module, passes, c.machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (failed == nullptr) return true;
  char* text_of_error = LLVMGetErrorMessage(failed);
  set_error(error, text_of_error);
  LLVMDisposeErrorMessage(text_of_error);
  return false;
}

LlvmBytes emit(const char* text, std::size_t size, const char* cpu, const char* features, const char* passes,
               int level, LLVMCodeGenFileType kind, char** error) {
  *error = nullptr;
  Context c;
  if (!prepare(c, text, size, cpu, features, passes, level, error)) return {nullptr, 0};
  char* message = nullptr;
  LLVMMemoryBufferRef made = nullptr;
  if (LLVMTargetMachineEmitToMemoryBuffer(c.machine, c.module, kind, &message, &made)) {
    take_message(error, message);
    return {nullptr, 0};
  }
  LlvmBytes out{nullptr, LLVMGetBufferSize(made)};
  if (c.diagnostics.empty()) {
    out.data = static_cast<char*>(std::malloc(out.size));
    std::memcpy(out.data, LLVMGetBufferStart(made), out.size);
  } else {
    set_error(error, c.diagnostics.c_str());
  }
  LLVMDisposeMemoryBuffer(made);
  return out;
}

}  // namespace

void initialize_x86() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    std::vector<const char*> words{"lathe"};
    words.insert(words.end(), std::begin(kLlvmOptions), std::end(kLlvmOptions));
    LLVMParseCommandLineOptions(static_cast<int>(words.size()), words.data(), nullptr);
  });
}

LlvmBytes compile_object(const char* text, std::size_t size, const char* cpu, const char* features,
                         const char* passes, int level, char** error) {
  return emit(text, size, cpu, features, passes, level, LLVMObjectFile, error);
}

LlvmBytes compile_assembly(const char* text, std::size_t size, const char* cpu, const char* features,
                           const char* passes, int level, char** error) {
  return emit(text, size, cpu, features, passes, level, LLVMAssemblyFile, error);
}

}  // namespace lathe::backends
