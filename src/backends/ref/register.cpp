// REF's row of the registry: its "binary" is the program's text form, and its device evaluates it.
#include "backends/ref/ref_device.h"
#include "base/error.h"
#include "ir/text.h"
#include "runtime/registry.h"

namespace lathe::backends {
namespace {

class RefCompiler : public Compiler {
 public:
  const Target& target() const override { return target_; }
  std::string version() const override { return "ref 1"; }
  Binary compile(const Program& program) const override {
    Binary binary;
    binary.entry = program.name;
    binary.bytes = binary.source = print_program(program);
    return binary;
  }

 private:
  Target target_ = named_target("ref");
};

std::shared_ptr<const Compiler> shared_compiler(std::string_view target) {
  if (!target.empty() && target != "ref")
    throw UserError("REF", "REF compiles only for the target ref, not for " + std::string(target));
  static const auto compiler = std::make_shared<const RefCompiler>();
  return compiler;
}

}  // namespace

void register_ref_backend(Registry& registry);

void register_ref_backend(Registry& registry) {
  Backend backend;
  backend.name = "REF";
  backend.targets = [] { return std::vector<std::string>{"ref"}; };
  backend.compiler = shared_compiler;
  backend.open = open_ref_device;
  backend.unavailable = [] { return std::string(); };
  registry.add(std::move(backend));
}

}  // namespace lathe::backends
