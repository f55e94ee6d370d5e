#include "schedule/check_outputs.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "ir/shape.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "schedule/kernel_rules.h"

namespace lathe {
namespace {

bool stores_into(Node sink, Node buffer) {
  for (Node n : toposort(sink))
    if (n.is(Op::Store) && base_memory(n.arg(0)) == buffer) return true;
  return false;
}

// The first rule that turned something with more stores into something with fewer.
class LostStore : public RewriteTrace {
 public:
  void applied(std::string_view table, std::string_view rule, Node before, Node after) override {
    if (culprit.empty() && stores(after) < stores(before))
      culprit = fmt::format("rule {} of {}", rule, table);
  }
  std::string culprit;

 private:
  static std::size_t stores(Node node) {
    const auto all = toposort(node);
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](Node n) { return n.is(Op::Store); }));
  }
};

// Where the store of a buffer went: the last form that has it, and what came after.
std::string culprit_of(const Plan& plan, std::span<const JoinedStep> joined, Node buffer,
                       const RuleChanges& rules) {
  for (const JoinedStep& step : joined) {
    if (!step.sink || !stores_into(step.sink, buffer)) continue;
    LostStore lost;
    RuleChanges watched = rules;
    watched.trace = &lost;
    simplify_kernel(merge_ranges(simplify_kernel(step.sink, watched)), watched);
    return lost.culprit.empty() ? "the kernel's rewriting" : lost.culprit;
  }
  for (const PlannedStep& step : plan.steps)
    if (step.sink && stores_into(step.sink, buffer)) return "the joining of kernels";
  return "the planner";
}

[[noreturn]] void report(const Plan& plan, std::span<const JoinedStep> joined, Node buffer,
                         const RuleChanges& rules) {
  std::string value = "a value";
  for (const auto& [node, made] : plan.stored)
    if (made == buffer) value = print_node(node);
  throw InternalError("schedule", fmt::format("no kernel computes {}, which is a target", value))
      .note("lost by " + culprit_of(plan, joined, buffer, rules));
}

}  // namespace

void check_outputs(const Plan& plan, std::span<const JoinedStep> joined, const Schedule& schedule,
                   const RuleChanges& rules) {
  NodeMap<char> missing;
  for (const auto& [node, buffer] : plan.stored)
    if (buffer.is(Op::Buffer) && !is_memory(node) && buffer_size(buffer) > 0) missing[buffer] = 1;
  auto need = [&](Node buffer) {
    if (const char* state = missing.find(buffer); state != nullptr && *state != 0)
      report(plan, joined, buffer, rules);
  };
  for (const Step& step : schedule.steps) {
    std::vector<SlotUse> uses{{false, true}, {true, false}};  // of a copy: to, from
    if (!step.is_copy()) uses = slot_uses(step.ast, step.buffers.size());
    for (std::size_t i = 0; i < uses.size(); ++i)
      if (!uses[i].writes) need(step.buffers[i]);
    for (std::size_t i = 0; i < uses.size(); ++i)
      if (char* state = missing.find(step.buffers[i]); uses[i].writes && state != nullptr) *state = 0;
  }
  for (const NodeRef& result : schedule.results) need(viewed(result));
}

}  // namespace lathe
