// The state that the steps of options and lowering share while they turn a scheduled kernel into a program.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "codegen/kernel/lowering.h"
#include "codegen/kernel/refusal.h"
#include "codegen/options/option_state.h"
#include "codegen/options/stage.h"
#include "ir/walk.h"
#include "lathe/options.h"
#include "pipeline/steps.h"

namespace lathe {

class KernelWork final : public StepState {
 public:
  KernelWork(Node from, std::span<const Opt> list, const Compile& context)
      : StepState(context),
        scheduled(from),
        opts(list),
        kernel(from),
        lowering{context.target, {}, {}, context.invariant} {}

  const char* form() const override { return linear ? "program" : "kernel"; }
  std::vector<Node> roots() const override;
  Faults quick_faults() const override { return {}; }  // what comes in and goes out is verified
  void show(const StepInfo& step, StepSink& sink) override;
  bool is_over() const override { return refusal.has_value(); }
  // The kernel a step has made, or why it cannot.
  void become(OrRefusal<Node> made) {
    if (made)
      kernel = *made;
    else
      refusal = made.refusal();
  }

  Node scheduled;  // as the options found it
  std::span<const Opt> opts;
  Node kernel;  // as it is now

  // Of options.
  std::optional<OptionState> state;  // all of them taken
  std::optional<Refusal> refusal;    // or why the kernel does not take them
  bool divided = false;              // whether the kernel has other ranges than it came in with
  std::vector<Staging> stages;
  std::vector<RangePlace> places;  // of its ranges
  NodeMap<Node> skipped;           // ranges and what they become where steps are skipped

  // Of lowering.
  Lowering lowering;
  Program program;
  bool linear = false;  // the program is what counts now
};

// What the steps verify.
Faults takes_options(const KernelWork& work);
Faults has_ranges(const KernelWork& work);
Faults is_lowered(const KernelWork& work);
Faults is_ordered(const KernelWork& work);  // a program whose asynchronous work may still lack its waits
Faults is_program(const KernelWork& work);
// Of steps that make something else of ranges: one that was left open is seen up to them and not after.
Faults is_closed(const KernelWork& work);

// The rows, in order: from the kernel as scheduled to one with its options, and from there to a program.
std::span<const StepRow<KernelWork>> option_rows();
std::span<const StepRow<KernelWork>> lower_rows();

}  // namespace lathe
