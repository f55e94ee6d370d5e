#include "schedule/schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "ir/shape.h"
#include "ir/walk.h"
#include "schedule/check_outputs.h"
#include "schedule/join_steps.h"
#include "schedule/kernel_rules.h"
#include "schedule/memory_view.h"
#include "schedule/normalize.h"
#include "schedule/order.h"
#include "schedule/planner.h"
#include "schedule/prepare.h"

namespace lathe {
namespace {

// Movement ops that keep every element, so that storing what is below them stores no more.
bool keeps_elements(Op op) {
  return op == Op::Reshape || op == Op::Permute || op == Op::Flip || op == Op::Expand;
}

std::vector<Node> written_by(Node launch) {
  const std::vector<SlotUse> uses = slot_uses(hand_written(launch).kernel, launch.arg_count());
  std::vector<Node> out;
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (uses[i].writes) out.push_back(launch.arg(i));
  return out;
}

// Memory versions that a store of this graph replaces: a view of one does not outlive the schedule.
NodeMap<char> replaced_versions(std::span<const Node> targets) {
  NodeMap<char> out;
  for (Node n : toposort(targets))
    if (n.is(Op::Store))
      out[view_memory(n.arg(0))] = 1;
    else if (n.is(Op::Launch))
      for (Node memory : written_by(n)) out[memory] = 1;
  return out;
}

// What has to be stored so that `target` can be read: null where nothing has to be.
Node to_store(Node target, const NodeMap<char>& replaced) {
  Node base = target;
  bool pads = false;
  while (is_movement(base.op())) {
    pads |= base.is(Op::Pad) || base.is(Op::Unskew);
    base = base.arg(0);
  }
  bool lasting = is_memory(base) && !replaced.contains(base);
  if (!pads && (lasting || base.is_const() || base.is(Op::Var) || base.is(Op::Sink))) return Node();
  base = target;
  while (keeps_elements(base.op())) base = base.arg(0);
  return base;
}

// Kernels that name more buffers than the device takes: walking from the inputs, wherever an elementwise node
// would need too many, the operand that brings most of them is stored by itself.
void split_by_buffers(const Plan& plan, std::span<const Node> targets, int limit, NodeMap<char>& forced) {
  bool over = false;
  for (const PlannedStep& s : plan.steps) {
    const bool here = limit > 0 && static_cast<int>(s.reads.size() + s.kept.size()) + 1 > limit;
    if (here)
      for (Node v : s.kept) forced[v] = 1;
    over |= here;
  }
  if (!over) return;
  NodeMap<std::vector<Node>> needs;  // buffers (or stored values) one element of the node reads
  for (Node n : toposort(targets)) {
    std::vector<Node> all;
    while (!is_memory(n)) {
      all.clear();
      Node heaviest;
      std::size_t most = 1;
      for (Node a : n.args()) {
        const std::vector<Node>& of_arg = needs[a];
        if (of_arg.size() > most) most = of_arg.size(), heaviest = a;
        for (Node m : of_arg)
          if (std::find(all.begin(), all.end(), m) == all.end()) all.push_back(m);
      }
      if (static_cast<int>(all.size()) < limit || !heaviest) break;
      forced[heaviest] = 1;
      needs[heaviest] = {heaviest};
    }
    if (is_memory(n) || plan.stored.contains(n) || forced.contains(n)) all = {n};
    needs[n] = std::move(all);
  }
}

std::string describe(const Plan& plan, const JoinedStep& step) {
  std::vector<std::string_view> names;
  for (int member : step.members)
    for (Node n : plan.steps[static_cast<std::size_t>(member)].ops) {
      std::string_view name = n.is(Op::Reduce) ? info(reduce_op(n)).name : info(n.op()).name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < 8; ++i) out += (i > 0 ? " " : "") + std::string(names[i]);
  return names.size() > 8 ? out + " ..." : out;
}

// Rewrites of a kernel depend on nothing but the kernel, so equal kernels share one.
Node finished_kernel(Node normal, NodeMap<Node>& known, const RuleChanges& rules) {
  auto [slot, fresh] = known.try_emplace(normal);
  if (!fresh) return *slot;
  Node simple = simplify_kernel(merge_ranges(split_ranges(simplify_kernel(normal, rules), rules)), rules);
  *known.find(normal) = simple;
  return simple;
}

// The values that can be read from the results, once the schedule has run.
NodeMap<char> read_afterwards(std::span<const Node> targets) {
  NodeMap<char> out;
  for (Node t : targets) {
    for (; is_movement(t.op()); t = t.arg(0)) out[t] = 1;
    out[t] = 1;
  }
  return out;
}

}  // namespace

Schedule schedule(std::span<const Node> targets, const ScheduleOptions& options, const Compile& compile) {
  Scope scope;
  Prepared graph = prepare(targets, compile);
  NodeMap<char> forced, overwritten = replaced_versions(graph.targets);
  for (Node t : graph.targets)
    if (Node base = to_store(t, overwritten)) forced[base] = 1;
  Plan plan;
  StepOrder order;
  // Every round stores at least one value more, so this ends.
  for (;;) {
    plan = Planner(graph.targets, forced, options, compile).run();
    std::size_t before = forced.size();
    for (Node n : plan.must_store) forced[n] = 1;
    split_by_buffers(plan, graph.targets, options.max_buffers, forced);
    if (forced.size() != before) continue;
    order = order_steps(plan);
    if (!order.cycle) break;
    for (Node version : order.break_at) forced[version] = 1;
    if (forced.size() == before) throw InternalError("schedule", "stores wait for each other");
  }

  Schedule out;
  NodeMap<Node> known;
  const std::vector<JoinedStep> kernels =
      join_steps(plan, order, read_afterwards(graph.targets), options.max_buffers, compile.rules);
  for (const JoinedStep& joined : kernels) {
    const PlannedStep& s = plan.steps[static_cast<std::size_t>(joined.members[0])];
    Step step;
    if (s.source) {
      const Node* made = plan.stored.find(s.source);
      step.buffers = {s.buffer, made != nullptr ? *made : base_memory(s.source)};
      step.from_offset = s.source_offset;
      step.device = buffer_device(s.buffer);
      step.name = "copy";
      step.origin = "Copy";
    } else if (s.root.is(Op::Launch)) {
      const HandWritten kernel = hand_written(s.root);
      step.ast = kernel.kernel;
      for (Node memory : s.root.args()) {
        const Node* made = plan.stored.find(memory);
        step.buffers.push_back(made != nullptr ? *made : base_memory(memory));
      }
      step.device = buffer_device(step.buffers[0]);
      step.name = kernel.name;
      step.origin = "custom_kernel";
      step.options = kernel.options;
    } else if (joined.sink) {
      NormalKernel normal = normalize_kernel(joined.sink);
      Node ast = finished_kernel(normal.ast, known, compile.rules);
      // Simplifying may have dropped buffers and ranges: number what is left again.
      NodeMap<Node> back;
      for (Node n : toposort(ast))
        if (n.is(Op::Param)) back[n] = normal.buffers[static_cast<std::size_t>(param_slot(n))];
      NormalKernel last = normalize_kernel(substitute(ast, back));
      step.ast = last.ast;
      for (Node b : last.buffers) step.buffers.push_back(b);
      step.device = buffer_device(s.buffer);
      step.name = kernel_name(last.ast);
      step.origin = describe(plan, joined);
      if (s.root.is(Op::Contiguous)) step.options = attached_options(s.root);
    } else {
      continue;  // an empty tensor
    }
    out.steps.push_back(std::move(step));
  }

  NodeMap<Node> replaced;
  for (const auto& [node, buffer] : plan.stored) replaced[node] = view_of(buffer, node.shape());
  for (Node n : toposort(graph.targets))
    if (n.is(Op::After)) replaced.try_emplace(n, base_memory(n));
  for (Node t : graph.targets) out.results.push_back(substitute(t, replaced));
  for (auto& [variable, value] : graph.bindings) out.bindings.emplace_back(variable, value);
  check_outputs(plan, kernels, out, compile.rules);
  return out;
}

}  // namespace lathe
