#include "investigate/setting.h"

#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/prove.h"

namespace lathe::investigate {
namespace {

std::string printer_of(const Subject& subject, const Conditions& conditions) {
  return !conditions.printer.empty() ? conditions.printer
         : !subject.printer.empty()  ? subject.printer
                                     : flag_text(Flag::Cpu);
}

std::shared_ptr<const Compiler> compiler_of(const OpenDevice& device) {
  if (device.compiler == nullptr)
    throw UserError("investigate", device.text + " compiles nothing").help("choose CPU or CUDA");
  return device.backend->compiler(device.name.target);
}

}  // namespace

Setting::Setting(const Subject& subject, const Conditions& conditions)
    : subject_(subject),
      printer_(Flag::Cpu, printer_of(subject, conditions)),
      noopt_(Flag::NoOpt, "0"),
      verify_(Flag::Verify, "0"),
      save_(Flag::Save, ""),
      without_({.disabled = conditions.without}),
      device_(open_device(subject.device)),
      compiler_(compiler_of(device_)),
      options_(conditions.without_options ? std::vector<Opt>() : subject.options),
      before_(contents(subject)) {}

Program Setting::lower() const {
  engine::ProofCounts counts;
  const Compile context = compile();
  const Node kernel = engine::prove_accesses(subject_.kernel, options_, subject_.name, context, counts);
  return lower_kernel(kernel, options_, context, subject_.name);
}

}  // namespace lathe::investigate
