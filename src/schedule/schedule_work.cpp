#include "schedule/schedule_work.h"

#include "ir/verify.h"

namespace lathe {
namespace {

Faults kernels_at(const ScheduleWork& work, KernelPhase phase) {
  Faults out;
  NodeMap<char> seen;
  for (Node kernel : work.roots())
    if (seen.try_emplace(kernel, 1).second)
      for (VerifyFault& fault : verify_kernel(kernel, phase)) out.push_back(std::move(fault));
  return out;
}

}  // namespace

// The kernels in the form they have now; a copy or an empty tensor has none.
std::vector<Node*> ScheduleWork::kernels() {
  std::vector<Node*> out;
  auto add = [&](Node& kernel) {
    if (kernel) out.push_back(&kernel);
  };
  if (phase == Phase::Planned)
    for (PlannedStep& step : plan.steps) add(step.sink);
  if (phase == Phase::Joined)
    for (JoinedStep& step : joined) add(step.sink);
  if (phase == Phase::Numbered)
    for (Node& kernel : distinct) add(kernel);
  if (phase == Phase::Last)
    for (NormalKernel& kernel : last) add(kernel.ast);
  return out;
}

std::vector<Node> ScheduleWork::roots() const {
  if (phase == Phase::Tensors) return targets;
  std::vector<Node> out;
  for (const Node* kernel : const_cast<ScheduleWork*>(this)->kernels()) out.push_back(*kernel);
  return out;
}

Faults ScheduleWork::quick_faults() const {
  return phase == Phase::Last ? are_kernels(*this) : Faults();  // what goes out, entirely
}

void ScheduleWork::show(const StepInfo& step, StepSink& sink) {
  if (phase == Phase::Tensors) return sink.tensors(step, targets);
  for (Node* kernel : kernels()) sink.kernel(step, *kernel);
}

Faults is_tensor_graph(const ScheduleWork& work) { return verify_tensor(work.targets); }
Faults are_planned(const ScheduleWork& work) { return kernels_at(work, KernelPhase::Planned); }
Faults are_numbered(const ScheduleWork& work) { return kernels_at(work, KernelPhase::Options); }
Faults are_kernels(const ScheduleWork& work) { return kernels_at(work, KernelPhase::Ranges); }

}  // namespace lathe
