#include "codegen/options/kernel_work.h"

namespace lathe {

std::vector<Node> KernelWork::roots() const {
  if (!linear) return {kernel};
  return {program.code.begin(), program.code.end()};
}

void KernelWork::show(const StepInfo& step, StepSink& sink) {
  if (linear)
    sink.program(step, program);
  else
    sink.kernel(step, kernel);
}

Faults takes_options(const KernelWork& work) { return verify_kernel(work.kernel, KernelPhase::Options); }
Faults has_ranges(const KernelWork& work) { return verify_kernel(work.kernel, KernelPhase::Ranges); }
Faults is_lowered(const KernelWork& work) { return verify_kernel(work.kernel, KernelPhase::Lowered); }
Faults is_closed(const KernelWork& work) { return open_ranges(work.kernel); }
Faults is_ordered(const KernelWork& work) {
  return work.compile.target.groups ? Faults() : verify_program(work.program);
}
Faults is_program(const KernelWork& work) { return verify_program(work.program); }

}  // namespace lathe
