#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <sstream>

#include "backends/cpu/binary.h"
#include "backends/cpu/compilers.h"
#include "backends/cpu/run_process.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "render/c_text.h"
#include "render/prepare.h"
#include "runtime/unit_compiler.h"
#include "target/matrix_units.h"

namespace lathe::backends {
namespace {

// Programs compiled by one run of the compiler: starting it costs more than most kernels.
constexpr std::size_t kBatch = 64;

std::vector<std::string> flags_for(const Target& target) {
  return {"-x",
          "c",
          "-std=gnu11",
          "-O2",
          "-w",
          "-shared",
          "-fPIC",
          "-fwrapv",
          "-ffp-contract=off",
          "-fno-math-errno",
          "-fno-strict-aliasing",
          "-march=" + target.cpu,
          fmt::format("-mprefer-vector-width={}", std::max(128, target.vector_bytes * 8))};
}

class CCompiler : public UnitCompiler {
 public:
  CCompiler(Target target, std::string path)
      : UnitCompiler(kBatch), target_(std::move(target)), path_(std::move(path)) {
    // C source has no text for fragments: what multiplies them falls to vectors or plain arithmetic.
    std::erase_if(target_.units, is_fragment_unit);
    // Nor for these, other than lane by lane.
    target_.table_lanes = 0;
    target_.scales = target_.rounds_products = false;
    ProcessResult said = run_process({path_, "--version"}, TemporaryFolder());
    version_ = said.output.substr(0, said.output.find('\n'));
  }
  const Target& target() const override { return target_; }
  std::string version() const override { return "c " + version_; }

 private:
  std::vector<Binary> compile_unit(std::span<const Program> programs) const override {
    render::CDialect dialect = render::gnu_c();
    dialect.units = target_.units;
    std::string unit = render::c_text(programs, dialect);
    TemporaryFolder folder;
    std::string source = folder.path() + "/kernels.c", library = folder.path() + "/kernels.so";
    write_file_atomic(source, unit, Sync::No);
    std::vector<std::string> command{path_};
    for (std::string& flag : flags_for(target_)) command.push_back(std::move(flag));
    command.insert(command.end(), {"-o", library, source, "-lm"});
    ProcessResult result = run_process(command, folder);
    if (result.status != 0)
      throw CompileError("CPU", fmt::format("the C compiler refused kernel {}", programs[0].name))
          .note(result.output)
          .note(unit);
    std::optional<std::string> bytes = read_file(library);
    if (!bytes) throw CompileError("CPU", "the C compiler wrote no library").note(result.output);

    std::vector<Binary> out;
    for (const Program& program : programs) {
      CpuCode code;
      code.kind = CodeKind::SharedLibrary;
      code.features = target_.features;
      code.scratch_bytes = render::layout_locals(program, dialect.stack_bytes).scratch_bytes;
      code.code = *bytes;
      std::string text = programs.size() == 1 ? unit : render::c_text(program, dialect);
      out.push_back({program.name, pack(code), std::move(text)});
    }
    return out;
  }

  Target target_;
  std::string path_, version_;
};

}  // namespace

std::string find_c_compiler() {
  for (const char* name : {"cc", "gcc", "clang"})
    if (std::string path = find_on_path(name); !path.empty()) return path;
  return "";
}

std::shared_ptr<const Compiler> make_c_compiler(Target target) {
  std::string path = find_c_compiler();
  if (path.empty())
    throw DeviceError("CPU", "no C compiler was found")
        .help("install gcc or clang, or build Lathe with LLVM");
  return std::make_shared<CCompiler>(std::move(target), std::move(path));
}

}  // namespace lathe::backends
