#include "engine/compile_context.h"

#include <algorithm>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/planted.h"
#include "base/text.h"
#include "codegen/codegen.h"
#include "engine/planted_steps.h"
#include "engine/steps.h"
#include "schedule/kernel_rules.h"
#include "schedule/running_maximum.h"
#include "schedule/spread_sums.h"
#include "schedule/unskewed_windows.h"

namespace lathe::engine {
namespace {

thread_local const ExperimentScope* innermost = nullptr;

// The names of a flag, by commas.
void add_disabled(const std::string& text, std::vector<std::string>& names) {
  if (text.empty()) return;
  const std::vector<std::string_view> known = known_rules();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string name = text.substr(at, end - at);
    at = end + 1;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      for (const ListedStep& row : all_steps())
        if (name == row.step.name)
          throw UserError("LATHE_WITHOUT", "step '" + name + "' cannot be disabled: every compile needs it");
      auto error = UserError("LATHE_WITHOUT", "no rule or step is named '" + name + "'");
      if (const auto meant = nearest_word(name, known))
        error.help("did you mean " + std::string(*meant) + "?");
      throw error.help(
          "lathe bench cpu --ablation lists the heuristic rules, the rewrite rules are the tables under "
          "src/rules, and docs/reference/steps.md lists the steps");
    }
    names.push_back(std::move(name));
  }
}

}  // namespace

std::vector<std::string_view> known_rules() {
  std::vector<std::string_view> names{kRunningMaximumRule, kSpreadSumRule, kUnskewRule};
  for (const HeuristicRule& rule : heuristic_rules()) names.emplace_back(rule.name);
  for (const RuleTable& table : all_tables())
    for (const Rule& rule : table.rules) names.emplace_back(rule.name);
  for (const ListedStep& row : all_steps())
    if (row.step.optional) names.emplace_back(row.step.name);
  return names;
}

RuleChanges rule_changes() {
  RuleChanges rules;
  add_disabled(flag_text(Flag::Without), rules.disabled);
  if (innermost == nullptr) return rules;
  const Experiment& now = innermost->experiment_;
  rules.disabled.insert(rules.disabled.end(), now.disabled.begin(), now.disabled.end());
  rules.planted = now.planted;
  rules.trace = now.trace;
  return rules;
}

Compile compile_for(const Target& target) {
  Compile compile(target);
  compile.invariant = flag_on(Flag::Invariant);
  compile.tf32 = flag_on(Flag::Tf32);
  compile.rules = rule_changes();
  if (innermost != nullptr) compile.sink = innermost->experiment_.sink;
  if constexpr (kCanPlant) compile.sink = with_planted_step(compile.sink);
  return compile;
}

Compile compile_for_schedule() {
  const Compile any;
  return compile_for(any.target);
}

StepSink* experiment_sink() { return innermost == nullptr ? nullptr : innermost->experiment_.sink; }

ExperimentScope::ExperimentScope(Experiment experiment)
    : experiment_(std::move(experiment)), outer_(std::exchange(innermost, this)) {
  if (outer_ == nullptr) return;
  const Experiment& outer = outer_->experiment_;
  experiment_.disabled.insert(experiment_.disabled.begin(), outer.disabled.begin(), outer.disabled.end());
  if (experiment_.planted == nullptr) experiment_.planted = outer.planted;
  if (experiment_.trace == nullptr) experiment_.trace = outer.trace;
  if (experiment_.sink == nullptr) experiment_.sink = outer.sink;
}

ExperimentScope::~ExperimentScope() { innermost = outer_; }

}  // namespace lathe::engine
