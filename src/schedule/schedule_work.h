// The state that the steps of scheduling share.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/steps.h"
#include "schedule/join_steps.h"
#include "schedule/normalize.h"
#include "schedule/order.h"
#include "schedule/planner.h"
#include "schedule/schedule.h"

namespace lathe {

class ScheduleWork final : public StepState {
 public:
  ScheduleWork(std::span<const Node> wanted, const ScheduleOptions& limits, const Compile& context)
      : StepState(context), options(limits), targets(wanted.begin(), wanted.end()) {}

  const char* form() const override { return phase == Phase::Tensors ? "tensor graph" : "kernel"; }
  std::vector<Node> roots() const override;
  Faults quick_faults() const override;
  void show(const StepInfo& step, StepSink& sink) override;

  // The form the graph has now, the last of those below that are filled.
  enum class Phase : std::uint8_t { Tensors, Planned, Joined, Numbered, Last };

  const ScheduleOptions& options;
  Phase phase = Phase::Tensors;
  std::vector<Node> targets;
  std::vector<std::pair<Node, std::int64_t>> bindings;
  Plan plan;
  StepOrder order;
  std::vector<JoinedStep> joined;
  // Rewrites of a kernel depend on nothing but the kernel, so equal kernels share one.
  std::vector<Node> distinct;
  std::vector<std::size_t> which;          // by joined step: its kernel among those
  std::vector<std::vector<Node>> buffers;  // by joined step
  std::vector<NormalKernel> last;          // by joined step

 private:
  std::vector<Node*> kernels();
};

// What the steps verify.
Faults is_tensor_graph(const ScheduleWork& work);
Faults are_planned(const ScheduleWork& work);
Faults are_numbered(const ScheduleWork& work);
Faults are_kernels(const ScheduleWork& work);

}  // namespace lathe
