// Scheduling, step by step on REF: tensor graphs against the graph as it was built, each kernel against what
// it was one step before, and the finished list of kernels against the graph again.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/env.h"
#include "base/error.h"
#include "engine/compile_context.h"
#include "engine/steps.h"
#include "investigate/graph_subject.h"
#include "investigate/rule_check.h"
#include "investigate/small_integers.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "reference/tensor_eval.h"
#include "runtime/devices.h"
#include "schedule/schedule.h"
#include "verify/compare.h"

namespace lathe::investigate {
namespace {

using reference::Array;
using reference::BufferContents;
using reference::TensorValue;

constexpr double kKernelOps = 1e8;
// Two right graphs differ by roundings in another order.
constexpr double kRelative = 1e-3;

BufferContents contents_of(std::span<const Node> targets) {
  BufferContents out;
  for (Node n : toposort(targets))
    if (n.is(Op::Buffer)) out[n] = small_integers(n, out.size());
  return out;
}

std::string difference_of(std::span<const TensorValue> want, std::span<const TensorValue> got) {
  if (want.size() != got.size()) return "a different number of results";
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i].data.size() != got[i].data.size() || want[i].data.dtype() != got[i].data.dtype())
      return fmt::format("result {} has another form", i);
    const verify::Comparison found = verify::compare(want[i].data, got[i].data, kRelative);
    if (!found.equal()) return fmt::format("in result {} {}", i, found.text());
  }
  return "";
}

// What a kernel leaves on made-up memory; empty where it cannot be run.
std::vector<Array> left_by(Node kernel) {
  std::map<std::int64_t, Array> memory;
  std::int64_t slots = 0;
  for (Node n : toposort(kernel))
    if (n.is(Op::Param)) {
      const Node like = buffer_with_id(-1, n.dtype(), memory_size(n), "CPU");
      memory[param_slot(n)] = small_integers(like, static_cast<std::size_t>(param_slot(n)));
      slots = std::max(slots, param_slot(n) + 1);
    }
  std::vector<Array> out(static_cast<std::size_t>(slots));
  std::vector<reference::View> views;
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    if (memory.contains(slot)) out[static_cast<std::size_t>(slot)] = memory[slot];
    views.push_back(out[static_cast<std::size_t>(slot)].view());
  }
  reference::Bindings bindings;
  for (Node n : toposort(kernel))
    if (n.is(Op::Var)) bindings.emplace_back(n.text(), n.hi());
  const reference::EvalReport report =
      reference::kernel_eval(kernel, views, bindings, {.max_ops = kKernelOps});
  if (!report.faults.empty()) throw InternalError("reference", report.faults[0]);
  return report.sampled || report.incomplete ? std::vector<Array>() : out;
}

class ScheduleOnRef : public StepSink, public RewriteTrace {
 public:
  ScheduleOnRef(std::span<const Node> targets, StepsRun& out)
      : out_(out),
        graph_(print_graph(targets)),
        contents_(contents_of(targets)),
        want_(reference::tensor_eval(targets, contents_)) {}

  void tensors(const StepInfo& step, std::vector<Node>& targets) override {
    const std::string before = std::exchange(graph_, print_graph(targets));
    note(step, before, graph_,
         [&] { return difference_of(want_, reference::tensor_eval(targets, contents_)); });
  }
  void kernel(const StepInfo& step, Node& kernel) override {
    if (done_) return;
    if (step.name != step_) step_ = step.name, number_ = 0;
    const std::size_t number = number_++;
    if (number >= kernels_.size()) kernels_.emplace_back();
    const NodeRef before = std::exchange(kernels_[number], NodeRef(kernel));
    // Where buffers are numbered, and numbered again, it is another kernel that is shown.
    const bool same = before && (step_ == "simplify_kernel" || step_ == "split_ranges" ||
                                 step_ == "merge_ranges" || step_ == "simplify_merged");
    shown_ = true;
    if (!same || before.node() == kernel) return;
    note(step, print_graph(before), print_graph(kernel), [&] { return difference_of(before, kernel); });
  }
  void applied(std::string_view table, std::string_view rule, Node before, Node after) override {
    if (done_) return;
    if (std::exchange(shown_, false)) rules_.clear();  // those of the step before
    rules_.add(table, rule, before, after);
  }

  // The finished list, one kernel after the other.
  void finish(const Schedule& schedule) {
    std::string kernels;
    for (const Step& step : schedule.steps)
      kernels += fmt::format("# {}\n{}", step.name, step.is_copy() ? "" : print_graph(step.ast));
    note({"kernels", "all kernels, one after the other", false}, graph_, kernels, [&] {
      BufferContents memory = contents_;
      for (const Step& step : schedule.steps) run(step, memory);
      std::vector<Node> results(schedule.results.begin(), schedule.results.end());
      return difference_of(want_, reference::tensor_eval(results, memory));
    });
  }

  bool done() const { return done_; }

 private:
  static std::string difference_of(Node before, Node after) {
    const std::vector<Array> want = left_by(before), got = left_by(after);
    for (std::size_t slot = 0; slot < std::min(want.size(), got.size()); ++slot) {
      if (want[slot].size() != got[slot].size() || want[slot].dtype() != got[slot].dtype()) continue;
      const verify::Comparison found = verify::compare(want[slot], got[slot], kRelative);
      if (!found.equal()) return fmt::format("in buffer {} {}", slot, found.text());
    }
    return "";
  }
  static std::string difference_of(std::span<const TensorValue> want, std::span<const TensorValue> got) {
    return investigate::difference_of(want, got);
  }

  static void run(const Step& step, BufferContents& memory) {
    for (const NodeRef& buffer : step.buffers)
      if (!memory.contains(buffer)) memory[buffer] = Array(buffer->dtype(), buffer_size(buffer));
    if (step.is_copy()) {
      const Array& from = *memory.find(step.buffers[1]);
      Array& to = *memory.find(step.buffers[0]);
      for (std::int64_t i = 0; i < to.size(); ++i)
        to.set_cell(i, from.cell(i + step.from_offset / from.dtype().bytes()));
      return;
    }
    std::vector<reference::View> views;
    for (const NodeRef& buffer : step.buffers) views.push_back(memory.find(buffer)->view());
    const reference::EvalReport report = reference::kernel_eval(step.ast, views, {}, {.max_ops = kKernelOps});
    if (!report.faults.empty())
      throw InternalError("reference", fmt::format("kernel {}: {}", step.name, report.faults[0]));
    if (report.sampled || report.incomplete) throw UserError("reference", "too long for REF");
  }

  template <class Look>
  void note(const StepInfo& step, const std::string& before, const std::string& after, Look look) {
    if (done_) return;
    StepVerdict verdict{"schedule", step.name, step.optional, Outcome::Right, ""};
    try {
      verdict.text = look();
      if (!verdict.text.empty()) verdict.outcome = Outcome::Wrong;
    } catch (const InternalError& error) {
      verdict.outcome = Outcome::Wrong;
      verdict.text = error.what();
    } catch (const Error& error) {
      verdict.outcome = Outcome::Unknown;
      verdict.text = error.what();
    }
    if (verdict.outcome == Outcome::Wrong) {
      done_ = true;
      out_.outcome = Outcome::Wrong;
      out_.text = verdict.text;
      out_.rules = rules_.uses();
      out_.before = before, out_.after = after;
    }
    shown_ = true;
    out_.steps.push_back(std::move(verdict));
  }

  StepsRun& out_;
  std::string graph_;  // after the last step that looks at all of it
  BufferContents contents_;
  std::vector<TensorValue> want_;
  std::vector<NodeRef> kernels_;
  std::string step_;
  std::size_t number_ = 0;
  RuleCheck rules_;
  bool shown_ = false;  // the step that applied them has been seen
  bool done_ = false;
};

}  // namespace

StepsRun run_schedule_on_ref(const GraphSubject& subject, const Conditions& conditions) {
  const Scope scope;
  const engine::ExperimentScope without({.disabled = conditions.without});
  const std::vector<Node> targets(subject.targets.begin(), subject.targets.end());
  StepsRun out;
  ScheduleOnRef seen(targets, out);
  ScheduleOptions options;
  options.rows = rows_of(open_device("CPU").compiler->target());
  try {
    Schedule made;
    {
      const engine::ExperimentScope experiment({.trace = &seen, .sink = &seen});
      made = schedule(targets, options, engine::compile_for_schedule());
    }
    if (!seen.done()) seen.finish(made);
  } catch (const InternalError& error) {
    if (!seen.done()) out.outcome = Outcome::Refused, out.text = error.what();
  }
  if (out.outcome != Outcome::Unknown) return out;
  if (!out.steps.empty() && out.steps.back().outcome == Outcome::Right) out.outcome = Outcome::Right;
  return out;
}

}  // namespace lathe::investigate
