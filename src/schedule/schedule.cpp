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
#include "schedule/expand_scans.h"
#include "schedule/kernel_rules.h"
#include "schedule/memory_view.h"
#include "schedule/planner.h"
#include "schedule/prepare_graph.h"
#include "schedule/schedule_work.h"
#include "target/matrix_units.h"

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

// Splits kernels that use more buffers than the device allows: in order from the inputs, if an elementwise
// node needs too many, its operand with the most buffers is stored separately.
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

// The values that can be read from the results, once the schedule has run.
NodeMap<char> read_afterwards(std::span<const Node> targets) {
  NodeMap<char> out;
  for (Node t : targets) {
    for (; is_movement(t.op()); t = t.arg(0)) out[t] = 1;
    out[t] = 1;
  }
  return out;
}

void expand_graph(ScheduleWork& work) {
  work.targets = expand_scans(work.targets, work.options.default_device, work.options.fast_threads);
}

void prepare_targets(ScheduleWork& work) {
  PreparedGraph made = prepare_graph(work.targets, work.compile);
  work.targets = std::move(made.targets);
  work.bindings = std::move(made.bindings);
}

void plan_kernels(ScheduleWork& work) {
  NodeMap<char> forced, overwritten = replaced_versions(work.targets);
  for (Node t : work.targets)
    if (Node base = to_store(t, overwritten)) forced[base] = 1;
  work.phase = ScheduleWork::Phase::Planned;
  // Every round stores at least one value more, so this ends.
  for (;;) {
    work.plan = Planner(work.targets, forced, work.options, work.compile).run();
    std::size_t before = forced.size();
    for (Node n : work.plan.must_store) forced[n] = 1;
    split_by_buffers(work.plan, work.targets, work.options.max_buffers, forced);
    if (forced.size() != before) continue;
    work.order = order_steps(work.plan);
    if (!work.order.cycle) return;
    for (Node version : work.order.break_at) forced[version] = 1;
    if (forced.size() == before) throw InternalError("schedule", "stores wait for each other");
  }
}

void join_kernels(ScheduleWork& work) {
  work.joined = join_steps(work.plan, work.order, read_afterwards(work.targets), work.options.max_buffers,
                           work.compile.rules);
  work.phase = ScheduleWork::Phase::Joined;
}

// Whether the kernel is generated, not hand-written.
bool is_made(const ScheduleWork& work, const JoinedStep& step) {
  const PlannedStep& first = work.plan.steps[static_cast<std::size_t>(step.members[0])];
  return step.sink && !first.source && !first.root.is(Op::Launch);
}

void number_buffers(ScheduleWork& work) {
  NodeMap<std::size_t> known;
  work.which.resize(work.joined.size());
  work.buffers.resize(work.joined.size());
  for (std::size_t i = 0; i < work.joined.size(); ++i) {
    if (!is_made(work, work.joined[i])) continue;
    NormalKernel normal = normalize_kernel(work.joined[i].sink);
    auto [slot, fresh] = known.try_emplace(normal.ast, work.distinct.size());
    if (fresh) work.distinct.push_back(normal.ast);
    work.which[i] = *slot;
    work.buffers[i] = std::move(normal.buffers);
  }
  work.phase = ScheduleWork::Phase::Numbered;
}

// Simplifying may have removed buffers and ranges: the others are renumbered.
void number_again(ScheduleWork& work) {
  work.last.resize(work.joined.size());
  for (std::size_t i = 0; i < work.joined.size(); ++i) {
    if (!is_made(work, work.joined[i])) continue;
    Node ast = work.distinct[work.which[i]];
    NodeMap<Node> back;
    for (Node n : toposort(ast))
      if (n.is(Op::Param)) back[n] = work.buffers[i][static_cast<std::size_t>(param_slot(n))];
    work.last[i] = normalize_kernel(substitute(ast, back));
  }
  work.phase = ScheduleWork::Phase::Last;
}

template <Node (*rewrite)(Node, const RuleChanges&)>
void each_kernel(ScheduleWork& work) {
  for (Node& kernel : work.distinct) kernel = rewrite(kernel, work.compile.rules);
}

constexpr bool kOptional = true;

// The steps from a tensor graph to a list of kernels, in order.
// clang-format off
constexpr StepRow<ScheduleWork> kScheduleSteps[] = {
    {"expand_scans", "scans, scatters and sorts are expanded into ops that suit the device",
     expand_graph, is_tensor_graph},
    {"prepare_graph", "variables lose their bindings, constants are folded, long reduces are split, copies take the base of a view, not the view",
     prepare_targets, is_tensor_graph},
    {"plan_kernels", "chooses which values are stored, and makes a kernel over ranges for each",
     plan_kernels, are_planned},
    {"join_steps", "kernels over the same ranges become one with several stores where that saves memory traffic",
     join_kernels, are_planned},
    {"number_buffers", "buffers become params, so that equal computations are equal kernels",
     number_buffers, are_numbered},
    {"simplify_kernel", "index algebra; reduces are joined, collapsed or removed",
     each_kernel<simplify_kernel>, are_numbered, kOptional},
    {"split_ranges", "a range that is evenly divided in indices becomes two",
     each_kernel<split_ranges>, are_numbered, kOptional},
    {"merge_ranges", "neighbouring ranges that every index combines in the same way become one",
     each_kernel<[](Node kernel, const RuleChanges&) { return merge_ranges(kernel); }>, are_numbered, kOptional},
    {"simplify_merged", "index algebra over the remaining ranges",
     each_kernel<simplify_kernel>, are_numbered, kOptional},
    {"number_again", "the remaining params and ranges are renumbered in order of first visit",
     number_again, are_kernels},
};
// clang-format on

std::span<const StepRow<ScheduleWork>> rows() { return kScheduleSteps; }

// The targets: verified in every build.
constexpr StepInfo kWanted{"tensor", "the tensor graph as built"};

Step copy_step(const ScheduleWork& work, const PlannedStep& planned) {
  Step step;
  const Node* made = work.plan.stored.find(planned.source);
  step.buffers = {planned.buffer, made != nullptr ? *made : base_memory(planned.source)};
  step.from_offset = planned.source_offset;
  step.device = buffer_device(planned.buffer);
  step.name = "copy";
  step.origin = "Copy";
  return step;
}

Step launch_step(const ScheduleWork& work, const PlannedStep& planned) {
  Step step;
  const HandWritten kernel = hand_written(planned.root);
  step.ast = kernel.kernel;
  for (Node memory : planned.root.args()) {
    const Node* made = work.plan.stored.find(memory);
    step.buffers.push_back(made != nullptr ? *made : base_memory(memory));
  }
  step.device = buffer_device(step.buffers[0]);
  step.name = kernel.name;
  step.origin = "custom_kernel";
  step.options = kernel.options;
  return step;
}

Step kernel_step(const ScheduleWork& work, std::size_t number, const PlannedStep& planned) {
  Step step;
  const NormalKernel& kernel = work.last[number];
  step.ast = kernel.ast;
  for (Node b : kernel.buffers) step.buffers.push_back(b);
  step.device = buffer_device(planned.buffer);
  step.name = kernel_name(kernel.ast);
  step.origin = describe(work.plan, work.joined[number]);
  if (planned.root.is(Op::Contiguous)) step.options = attached_options(planned.root);
  return step;
}

Schedule written_down(const ScheduleWork& work) {
  Schedule out;
  for (std::size_t i = 0; i < work.joined.size(); ++i) {
    const PlannedStep& first = work.plan.steps[static_cast<std::size_t>(work.joined[i].members[0])];
    if (first.source)
      out.steps.push_back(copy_step(work, first));
    else if (first.root.is(Op::Launch))
      out.steps.push_back(launch_step(work, first));
    else if (work.joined[i].sink)  // else an empty tensor
      out.steps.push_back(kernel_step(work, i, first));
  }
  NodeMap<Node> replaced;
  for (const auto& [node, buffer] : work.plan.stored) replaced[node] = view_of(buffer, node.shape());
  for (Node n : toposort(work.targets))
    if (n.is(Op::After)) replaced.try_emplace(n, base_memory(n));
  for (Node t : work.targets) out.results.push_back(substitute(t, replaced));
  for (const auto& [variable, value] : work.bindings) out.bindings.emplace_back(variable, value);
  return out;
}

}  // namespace

std::vector<StepInfo> schedule_steps() { return infos(rows()); }

Schedule schedule(std::span<const Node> targets, const ScheduleOptions& options, const Compile& compile) {
  Scope scope;
  return with_blame(compile, [&](const Compile& context) {
    ScheduleWork work(targets, options, context);
    blame_step(kWanted, work, is_tensor_graph(work));
    run_steps(rows(), work);
    Schedule out = written_down(work);
    check_outputs(work.plan, work.joined, out, context.rules);
    return out;
  });
}

bool has_unit_folds(const Target& target) {
  return target.groups && std::any_of(target.units.begin(), target.units.end(), [](const std::string& name) {
           const MatrixUnit* unit = find_matrix_unit(name);
           return unit != nullptr && unit->reads == UnitReads::Panels;
         });
}

Rows rows_of(const Target& target) {
  return target.threads ? Rows::Thread : target.groups ? Rows::Group : Rows::Apart;
}

}  // namespace lathe
