#include "engine/fold_steps.h"

#include <algorithm>
#include <vector>

#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "ir/walk.h"

namespace lathe::engine {
namespace {

bool has_fold(Node kernel) {
  const std::vector<Node> order = toposort(kernel);
  return std::any_of(order.begin(), order.end(), [](Node n) { return n.is(Op::Fold); });
}

bool takes_unit(const Step& step, const Target& target) {
  const std::vector<Opt> chosen = choose_options(step.ast, compile_for(target));
  return std::any_of(chosen.begin(), chosen.end(), [](const Opt& opt) { return opt.op == OptOp::TC; });
}

}  // namespace

Schedule schedule_folds(std::span<const Node> targets, ScheduleOptions options,
                        const std::function<const Target*(const std::string&)>& target_of) {
  const Compile compile = compile_for_schedule();
  Schedule made = schedule(targets, options, compile);
  if (!options.unit_folds || options.rows != Rows::Group) return made;
  const bool all = std::all_of(made.steps.begin(), made.steps.end(), [&](const Step& step) {
    if (step.is_copy() || !has_fold(step.ast)) return true;
    const Target* target = target_of(step.device);
    return target == nullptr || !target->groups || takes_unit(step, *target);
  });
  if (all) return made;
  options.unit_folds = false;
  return schedule(targets, options, compile);
}

}  // namespace lathe::engine
