// The context in which the engine compiles: the caller's flags, and changes by tests and experiments on this
// thread. All code above the code generator that lowers kernels gets it here, so that a kernel, its cache key
// and the result it is compared with are made in the same way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/compile.h"

namespace lathe::engine {

// Names that LATHE_WITHOUT takes: rules of rewriting, of scheduling and of the heuristic, and optional steps.
std::vector<std::string_view> known_rules();

Compile compile_for(const Target& target);
Compile compile_for_schedule();

// What the contexts above have in common. Throws UserError where LATHE_WITHOUT names no rule.
RuleChanges rule_changes();

// Like a flag: holds for what this thread compiles as long as the scope lives, within that of outer scopes.
struct Experiment {
  std::vector<std::string> disabled{};
  const RuleSet* planted = nullptr;
  RewriteTrace* trace = nullptr;
  StepSink* sink = nullptr;
};
// The sink of this thread's experiment, or null: for one that takes its place and hands on what it sees.
StepSink* experiment_sink();
class ExperimentScope {
 public:
  explicit ExperimentScope(Experiment experiment);
  ~ExperimentScope();
  ExperimentScope(const ExperimentScope&) = delete;
  ExperimentScope& operator=(const ExperimentScope&) = delete;

 private:
  Experiment experiment_;  // with what outer scopes have and this one leaves open
  const ExperimentScope* outer_;
  friend RuleChanges rule_changes();
  friend Compile compile_for(const Target& target);
  friend Compile compile_for_schedule();
  friend StepSink* experiment_sink();
};

}  // namespace lathe::engine
