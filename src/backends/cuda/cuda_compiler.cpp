#include "backends/cuda/cuda_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/cuda/dialect.h"
#include "backends/cuda/nvrtc.h"
#include "base/error.h"

namespace lathe::backends {
namespace {

class CudaCompiler : public Compiler {
 public:
  CudaCompiler(Target target, const Nvrtc& nvrtc) : target_(std::move(target)), nvrtc_(nvrtc) {}

  const Target& target() const override { return target_; }
  std::string version() const override { return "nvrtc " + nvrtc_.version(); }
  Binary compile(const Program& program) const override { return compile_unit({&program, 1})[0]; }

  std::vector<Binary> compile_all(std::span<const Program> programs) const override {
    std::vector<Binary> out;
    for (std::size_t begin = 0; begin < programs.size(); begin += kCudaBatch)
      for (Binary& binary :
           compile_batch(programs.subspan(begin, std::min(kCudaBatch, programs.size() - begin))))
        out.push_back(std::move(binary));
    return out;
  }

 private:
  // A unit needs names that differ, and an error should name the kernel that is to blame: else one by one.
  std::vector<Binary> compile_batch(std::span<const Program> programs) const {
    std::set<std::string> names;
    for (const Program& program : programs) names.insert(program.name);
    if (names.size() == programs.size()) {
      try {
        return compile_unit(programs);
      } catch (const CompileError&) {
        if (programs.size() == 1) throw;
      }
    }
    return Compiler::compile_all(programs);
  }

  std::vector<Binary> compile_unit(std::span<const Program> programs) const {
    std::string unit = render::c_text(programs, cuda_c()), log;
    std::string cubin = nvrtc_.compile(unit, target_.name, log);
    if (cubin.empty())
      throw CompileError("CUDA", fmt::format("NVRTC refused kernel {}", programs[0].name))
          .note(log)
          .note(unit);
    std::vector<Binary> out;
    for (const Program& program : programs)
      out.push_back({program.name, cubin, programs.size() == 1 ? unit : render::c_text(program, cuda_c())});
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
