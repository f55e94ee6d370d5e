#include "backends/cuda/cuda_compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/compiler_log.h"
#include "backends/cuda/dialect.h"
#include "backends/cuda/nvrtc.h"
#include "base/error.h"
#include "runtime/unit_compiler.h"

namespace lathe::backends {
namespace {

class CudaCompiler : public UnitCompiler {
 public:
  CudaCompiler(Target target, const Nvrtc& nvrtc)
      : UnitCompiler(kCudaBatch), target_(std::move(target)), nvrtc_(nvrtc) {}

  const Target& target() const override { return target_; }
  std::string version() const override { return "nvrtc " + nvrtc_.version(); }

 private:
  std::vector<Binary> compile_unit(std::span<const Program> programs) const override {
    std::string unit = render::c_text(programs, cuda_c()), log;
    std::string cubin = nvrtc_.compile(unit, target_.name, log);
    if (cubin.empty())
      throw CompileError("CUDA", fmt::format("NVRTC refused kernel {}", programs[0].name))
          .note(log)
          .note(unit);
    const std::vector<KernelResources> resources = resources_in(log);
    std::string faults;
    for (const std::string& fault : faults_in(log)) faults += "// " + fault + "\n";
    std::vector<Binary> out;
    for (const Program& program : programs) {
      std::string source = programs.size() == 1 ? unit : render::c_text(program, cuda_c());
      for (const KernelResources& r : resources)
        if (r.kernel == program.name)
          source += fmt::format("// {}: {} registers, {} bytes of stack, {} + {} bytes spilled\n", r.kernel,
                                r.registers, r.stack, r.spill_stores, r.spill_loads);
      out.push_back({program.name, cubin, source + faults});
    }
    return out;
  }

  Target target_;
  const Nvrtc& nvrtc_;
};

}  // namespace

std::shared_ptr<const Compiler> make_cuda_compiler(Target target) {
  const Nvrtc* nvrtc = Nvrtc::get();
  if (nvrtc == nullptr)
    throw DeviceError("CUDA", Nvrtc::why_missing())
        .help(
            "run scripts/setup.sh cuda, install the CUDA toolkit, or set LATHE_CUDA_PATH to the folder that "
            "holds it");
  return std::make_shared<CudaCompiler>(std::move(target), *nvrtc);
}

}  // namespace lathe::backends
