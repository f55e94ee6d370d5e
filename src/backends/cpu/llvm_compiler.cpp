#include <fmt/format.h>

#include <mutex>

#include "backends/cpu/binary.h"
#include "backends/cpu/compilers.h"
#include "backends/cpu/llvm_module.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "render/llvm_text.h"
#include "render/prepare.h"
#include "target/matrix_units.h"

namespace lathe::backends {
namespace {

constexpr int kCodeLevel = 2;

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
    char* error = nullptr;
    LlvmBytes object =
        llvm_.compile(out.source.data(), out.source.size(), target_.cpu.c_str(), target_.features.c_str(),
                      has_arrays ? kLlvmPasses : "", kCodeLevel, &error);
    if (object.data == nullptr) {
      std::string reason = error != nullptr ? error : "unknown error";
      llvm_.release(error);
      throw CompileError("CPU", fmt::format("LLVM refused kernel {}", program.name))
          .note(reason)
          .note(out.source);
    }
    CpuCode code;
    code.features = target_.features;
    code.scratch_bytes = render::layout_locals(program, render::kStackBytes).scratch_bytes;
    code.code = {object.data, object.size};
    out.bytes = pack(code);
    llvm_.release(object.data);
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
  std::vector<Binary> compile_all(std::span<const Program> programs) const override {
    return chosen().compile_all(programs);
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
