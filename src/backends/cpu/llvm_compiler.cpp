#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <string>

#include "backends/cpu/binary.h"
#include "backends/cpu/compilers.h"
#include "backends/cpu/llvm_module.h"
#include "base/env.h"
#include "base/error.h"
#include "base/interruptible.h"
#include "base/log.h"
#include "render/llvm_text.h"
#include "render/prepare.h"
#include "target/matrix_units.h"

namespace lathe::backends {
namespace {

constexpr int kCodeLevel = 2;
// Bytes of text that LLVM may take longer for than somebody who pressed Ctrl-C should wait: a megabyte takes
// it a second or several.
constexpr std::size_t kLongText = 100'000;

// One call of LLVM, with all it needs and gives. A caller that was interrupted is not there to take the
// result.
struct LlvmCall {
  const LlvmInterface& llvm;
  std::string text, cpu, features, passes;
  LlvmBytes object{nullptr, 0};
  char* error = nullptr;

  ~LlvmCall() {
    llvm.release(object.data);
    llvm.release(error);
  }
  void run() {
    object = llvm.compile(text.data(), text.size(), cpu.c_str(), features.c_str(), passes.c_str(), kCodeLevel,
                          &error);
  }
};

class LlvmCompiler : public Compiler {
 public:
  explicit LlvmCompiler(Target target) : target_(std::move(target)), llvm_(require_llvm_module()) {}
  const Target& target() const override { return target_; }
  std::string version() const override {
    return fmt::format("llvm {} passes={} level={} {}", llvm_.version, kLlvmPasses, kCodeLevel,
                       fmt::join(kLlvmOptions, " "));
  }

  Binary compile(const Program& program) const override {
    Binary out;
    out.entry = program.name;
    out.source = render::llvm_text(program, target_);
    const bool has_arrays = out.source.find(" = alloca ") != std::string::npos;
    auto call = std::make_shared<LlvmCall>(
        llvm_, out.source, target_.cpu, target_.features,
        has_arrays ? kLlvmPasses : "");  // shared with a thread that may outlive an interrupted wait
    if (out.source.size() < kLongText)
      call->run();
    else
      run_interruptible([call] { call->run(); }, "compiled", program.name);
    if (call->object.data == nullptr) {
      const std::string reason = call->error != nullptr ? call->error : "unknown error";
      throw CompileError("CPU", fmt::format("LLVM refused kernel {}", program.name))
          .note(reason)
          .note(out.source);
    }
    CpuCode code;
    code.features = target_.features;
    code.scratch_bytes = render::layout_locals(program, render::kStackBytes).scratch_bytes;
    code.code = {call->object.data, call->object.size};
    out.bytes = pack(code);
    return out;
  }

 private:
  Target target_;
  const LlvmInterface& llvm_;
};

}  // namespace

std::shared_ptr<const Compiler> make_llvm_compiler(Target target) {
  return std::make_shared<LlvmCompiler>(std::move(target));
}

namespace {

// LLVM where it can be loaded, else C. Decided when there is something to compile, because loading LLVM takes
// longer than all else that opening the device does; or, where there are matrix units that C has no text for,
// when somebody asks what kernels are made for.
class ChosenCompiler : public Compiler {
 public:
  explicit ChosenCompiler(Target target) : target_(std::move(target)) {}
  const Target& target() const override { return has_fragments(target_) ? chosen().target() : target_; }
  std::string version() const override { return chosen().version(); }
  Binary compile(const Program& program) const override { return chosen().compile(program); }
  std::vector<Binary> compile_all(std::span<const Program> programs, const Counted& told) const override {
    return chosen().compile_all(programs, told);
  }

 private:
  const Compiler& chosen() const {
    std::call_once(once_, [&] {
      std::string why;
      if (llvm_module(&why) != nullptr) {
        chosen_ = make_llvm_compiler(target_);
        return;
      }
      log_warning_once("CPU",
                       "LLVM cannot be loaded, so kernels are compiled by the system's C compiler: " + why);
      chosen_ = make_c_compiler(target_);
    });
    return *chosen_;
  }

  Target target_;
  mutable std::once_flag once_;
  mutable std::shared_ptr<const Compiler> chosen_;
};

}  // namespace

std::shared_ptr<const Compiler> make_cpu_compiler(Target target) {
  if (flag_text(Flag::Cpu) == "c") return make_c_compiler(std::move(target));
  return std::make_shared<ChosenCompiler>(std::move(target));
}

}  // namespace lathe::backends
