#include "engine/planted_steps.h"

#include "base/planted.h"
#include "pipeline/spoil.h"

#if LATHE_FAULTS

namespace lathe::engine {
namespace {

struct StepFault {
  Planting how;
  Spoil change;
};
constexpr StepFault kStepFaults[] = {{Planting::StepOperand, negate_operand},
                                     {Planting::StepLoop, shorten_loop},
                                     {Planting::StepGate, drop_gate},
                                     {Planting::StepIndex, stop_index}};

class PlantedStep : public StepSink {
 public:
  StepSink* seen = nullptr;

  void tensors(const StepInfo& step, std::vector<Node>& targets) override {
    if (seen != nullptr) seen->tensors(step, targets);
  }
  void kernel(const StepInfo& step, Node& kernel) override {
    if (const Spoil change = change_of(step)) spoil(kernel, change);
    if (seen != nullptr) seen->kernel(step, kernel);
  }
  void program(const StepInfo& step, Program& program) override {
    if (const Spoil change = change_of(step)) spoil(program, change);
    if (seen != nullptr) seen->program(step, program);
  }
  void checked(const StepInfo& step) override {
    if (seen != nullptr) seen->checked(step);
  }

 private:
  static Spoil change_of(const StepInfo& step) {
    for (const StepFault& fault : kStepFaults)
      if (planted_in(fault.how, step.name)) return fault.change;
    return nullptr;
  }
};

}  // namespace

StepSink* with_planted_step(StepSink* seen) {
  const FaultRow* row = planted_fault();
  if (row == nullptr || row->how == Planting::Site || row->how == Planting::RuleConstant ||
      row->how == Planting::RuleGuard)
    return seen;
  thread_local PlantedStep step;
  step.seen = seen;
  return &step;
}

}  // namespace lathe::engine

#else

namespace lathe::engine {
StepSink* with_planted_step(StepSink* seen) { return seen; }
}  // namespace lathe::engine

#endif
