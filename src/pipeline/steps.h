// A list of steps and how it is run: after each the result goes to the context's sink and is verified, and
// what is malformed is blamed on the step, and on the rule, that made it. Scheduling, options and lowering
// are such lists (schedule/schedule.cpp, codegen/options/apply_options.cpp, codegen/pipeline.cpp);
// engine/steps.h joins them.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/verify.h"
#include "pipeline/blame.h"
#include "pipeline/compile.h"

namespace lathe {

using Faults = std::vector<VerifyFault>;

// What a list of steps works on.
class StepState {
 public:
  explicit StepState(const Compile& context) : compile(context) {}
  virtual ~StepState() = default;
  StepState(const StepState&) = delete;
  StepState& operator=(const StepState&) = delete;

  virtual const char* form() const = 0;         // "kernel", for errors
  virtual std::vector<Node> roots() const = 0;  // of the graph as it is now
  virtual Faults quick_faults() const = 0;      // what is looked for after every step of every build
  virtual void show(const StepInfo& step, StepSink& sink) = 0;
  virtual bool is_over() const { return false; }  // the last step found that the rest is not to be done

  const Compile& compile;
};

template <class State>
struct StepRow {
  const char* name;
  const char* purpose;
  void (*run)(State& state);
  Faults (*verify)(const State& state);
  bool optional = false;
  // What only shows before this step: looked for there in every build.
  Faults (*last_seen)(const State& state) = nullptr;

  StepInfo info() const { return {name, purpose, optional}; }
};

// Throws InternalError for the first fault, naming the step and the rule that made the node.
void blame_step(const StepInfo& step, const StepState& state, const Faults& faults);
void add_step_name(InternalError& error, const StepInfo& step);

// What a step gave is handed over, then verified.
template <class State>
void finish_step(const StepRow<State>& step, State& state) {
  const StepInfo info = step.info();
  if (state.compile.sink != nullptr) state.show(info, *state.compile.sink);
  if (state.compile.checks == Checks::None) return;
  const bool all = state.compile.checks == Checks::EveryStep;
  blame_step(info, state, all ? step.verify(state) : state.quick_faults());
  if (state.compile.sink != nullptr) state.compile.sink->checked(info);
}

template <class State>
void run_step(const StepRow<State>& step, State& state) {
  if (step.optional && state.compile.rules.disables(step.name)) return;
  if (step.last_seen != nullptr && state.compile.checks == Checks::Borders)
    blame_step(step.info(), state, step.last_seen(state));
  if (state.compile.blame != nullptr) state.compile.blame->begin_step(state.roots());
  try {
    step.run(state);
  } catch (InternalError& error) {
    add_step_name(error, step.info());
    throw;
  }
  if (!state.is_over()) finish_step(step, state);
}

template <class State>
void run_steps(std::span<const StepRow<State>> steps, State& state) {
  for (const StepRow<State>& step : steps) {
    run_step(step, state);
    if (state.is_over()) return;
  }
}

template <class State>
std::vector<StepInfo> infos(std::span<const StepRow<State>> steps) {
  std::vector<StepInfo> out;
  for (const StepRow<State>& step : steps) out.push_back(step.info());
  return out;
}

// Runs `work` in the context; where it finds something malformed, once more with every check on and every
// rule recorded, for an error that names who is to blame.
template <class Work>
auto with_blame(const Compile& compile, Work&& work) {
  try {
    return work(compile);
  } catch (InternalError&) {
    if (compile.blame != nullptr) throw;
    Blame blame;
    Compile again = compile;
    again.checks = Checks::EveryStep;
    again.blame = &blame;
    again.rules.trace = &blame;
    work(again);
    throw;
  }
}

}  // namespace lathe
