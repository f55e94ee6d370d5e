#include "engine/planted_steps.h"

#include <span>
#include <string_view>

#include "base/planted.h"

#if LATHE_FAULTS

#include "ir/build.h"
#include "ir/walk.h"

namespace lathe::engine {
namespace {

// x + y becomes x - y, x*y + z becomes -x*y + z: the first operation on two floats.
NodeMap<Node> negated_operand(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!is_scalar_op(n.op()) || n.arg_count() < 2 || !n.dtype().is_float() || !n.arg(0).dtype().is_float() ||
        !n.arg(1).dtype().is_float())
      continue;
    std::vector<Node> args(n.args().begin(), n.args().end());
    args[1] = apply(Op::Neg, args[1]);
    map[n] = rebuild(n, args);
    break;
  }
  return map;
}

// One loop takes a step less.
NodeMap<Node> step_less(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!n.is(Op::Range) || !n.arg(0).is_const() || n.arg(0).const_int() < 2) continue;
    Node args[] = {number(n.arg(0).dtype(), static_cast<double>(n.arg(0).const_int() - 1))};
    map[n] = intern(n.op(), n.dtype(), args, n.attr());
    break;
  }
  return map;
}

// One access does what its gate keeps it from.
NodeMap<Node> lost_gate(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    const std::size_t gate = n.is(Op::Load) ? 2 : n.is(Op::Store) ? 3 : n.arg_count();
    if (gate >= n.arg_count()) continue;
    map[n] = intern(n.op(), n.dtype(), n.args().first(gate), n.attr());
    break;
  }
  return map;
}

// One load always reads the first element.
NodeMap<Node> stuck_index(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!n.is(Op::Load) || !n.arg(0).is(Op::Param) || n.arg(1).is_const()) continue;
    std::vector<Node> args(n.args().begin(), n.args().end());
    args[1] = splat(number(args[1].dtype().element(), 0), args[1].dtype().lanes);
    map[n] = intern(n.op(), n.dtype(), args, n.attr());
    break;
  }
  return map;
}

struct Mutation {
  FaultClass where;
  NodeMap<Node> (*change)(std::span<const Node> order);
};
constexpr Mutation kMutations[] = {{FaultClass::StepOperand, negated_operand},
                                   {FaultClass::StepLoop, step_less},
                                   {FaultClass::StepGate, lost_gate},
                                   {FaultClass::StepIndex, stuck_index}};

class PlantedStep : public StepSink {
 public:
  StepSink* seen = nullptr;

  void tensors(const StepInfo& step, std::vector<Node>& targets) override {
    if (seen != nullptr) seen->tensors(step, targets);
  }
  void kernel(const StepInfo& step, Node& kernel) override {
    if (auto change = change_of(step))
      if (const NodeMap<Node> map = change(toposort(kernel)); !map.empty()) kernel = substitute(kernel, map);
    if (seen != nullptr) seen->kernel(step, kernel);
  }
  void program(const StepInfo& step, Program& program) override {
    if (auto change = change_of(step)) {
      const std::vector<Node> code(program.code.begin(), program.code.end());
      if (const NodeMap<Node> map = change(toposort(code)); !map.empty())
        for (NodeRef& node : program.code) node = substitute(node, map);
    }
    if (seen != nullptr) seen->program(step, program);
  }
  void checked(const StepInfo& step) override {
    if (seen != nullptr) seen->checked(step);
  }

 private:
  static NodeMap<Node> (*change_of(const StepInfo& step))(std::span<const Node>) {
    for (const Mutation& mutation : kMutations)
      if (planted_in(mutation.where, step.name)) return mutation.change;
    return nullptr;
  }
};

}  // namespace

StepSink* with_planted_step(StepSink* seen) {
  const FaultRow* row = planted_fault();
  if (row == nullptr || row->where == FaultClass::Site || row->where == FaultClass::RuleConstant ||
      row->where == FaultClass::RuleGuard)
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
