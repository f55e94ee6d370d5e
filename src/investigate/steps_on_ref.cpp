// What each step of a compile gives, evaluated on REF: the first that is not what was scheduled is the one to
// blame, and one of the rules it applied may be.
#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/steps.h"
#include "investigate/experiment.h"
#include "investigate/rule_check.h"
#include "investigate/setting.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "verify/expected.h"

namespace lathe::investigate {
namespace {

using reference::Array;

// Operations of REF for one step, all positions; and for what the kernel should store.
constexpr double kStepOps = 1e8, kExpectedOps = 2e7;

// Of a step's text, for people.
constexpr std::size_t kMostText = 1 << 16;

// Threads that are looked at: each is a run of REF.
constexpr std::int64_t kMostThreads = 512;

// A kernel whose parallel ranges are launch indices: the threads one after the other, where they never meet.
reference::EvalReport eval_all_threads(Node kernel, std::span<const reference::View> views,
                                       const reference::Bindings& bindings) {
  std::vector<Node> indices;
  std::int64_t threads = 1;
  bool meet = false;
  for (Node n : toposort(kernel)) {
    meet |= n.is(Op::Barrier) || n.is(Op::Exchange);
    if (!n.is(Op::Special)) continue;
    indices.push_back(n);
    threads *= n.ints()[0];
  }
  if (indices.empty()) return reference::kernel_eval(kernel, views, bindings, {.max_ops = kStepOps});
  reference::EvalReport all;
  bool index_fault = false;
  if (meet || threads <= 0 || threads > kMostThreads) {
    all.incomplete = true;
    return all;
  }
  for (std::int64_t thread = 0; thread < threads && all.ok() && !all.sampled; ++thread) {
    NodeMap<Node> at;
    std::int64_t rest = thread;
    for (Node index : indices) {
      at[index] = number(index.dtype(), static_cast<double>(rest % index.ints()[0]));
      rest /= index.ints()[0];
    }
    all = reference::kernel_eval(substitute(kernel, at), views, bindings, {.max_ops = kStepOps});
    index_fault |= all.index_fault;
  }
  all.index_fault = index_fault;
  return all;
}

// Fences between stores and products are placed by one of the last steps: until then they are not missed.
bool is_missing_fence(std::string_view text) { return text.starts_with("missing proxy fence:"); }

// A race explains the read of what is not there yet.
std::string first_of(const std::vector<std::string>& faults) {
  const auto race = std::ranges::find_if(faults, is_missing_order);
  return race == faults.end() ? faults[0] : *race;
}

class StepsOnRef : public StepSink, public RewriteTrace {
 public:
  StepsOnRef(const Setting& setting, StepsRun& out)
      : setting_(setting),
        out_(out),
        expected_(setting.subject().kernel, setting.before(), setting.subject().bindings, kExpectedOps,
                  setting.target().native),
        outer_(engine::experiment_sink()),
        last_kernel_(setting.subject().kernel) {}

  const reference::BoundedReport& report() const { return expected_.report(); }

  // The kernel as scheduled, whose faults are the scheduler's.
  void start(Node kernel) { look({"scheduled", "", false}, kernel); }

  void kernel(const StepInfo& step, Node& kernel) override {
    if (outer_ != nullptr) outer_->kernel(step, kernel);
    if (done_) return;
    last_kernel_ = kernel;
    look(step, kernel);
  }
  void program(const StepInfo& step, Program& program) override {
    if (outer_ != nullptr) outer_->program(step, program);
    if (done_) return;
    text_ = print_program(program);
    judge(step, [&](std::span<const reference::View> views) {
      return reference::program_eval(program, views, setting_.subject().bindings, {.max_ops = kStepOps});
    });
  }
  void applied(std::string_view table, std::string_view rule, Node before, Node after) override {
    if (!done_) rules_.add(table, rule, before, after);
  }
  // One that is wrong for now is wrong if none was right after it.
  void finish() {
    if (!suspected_) return;
    out_.outcome = Outcome::Wrong;
    out_.steps.resize(*suspected_);
    done_ = true;
  }

 private:
  void look(const StepInfo& step, Node kernel) {
    text_ = print_graph(kernel);
    judge(step, [&](std::span<const reference::View> views) {
      return eval_all_threads(kernel, views, setting_.subject().bindings);
    });
  }

  template <class Eval>
  void judge(const StepInfo& step, Eval eval) {
    std::vector<Array> after = setting_.before();
    after.emplace_back(dtypes::Int64, 1);  // where checks report
    std::vector<reference::View> views;
    for (Array& array : after) views.push_back(array.view());
    StepVerdict verdict{part_of(step.name), step.name, step.optional, Outcome::Unknown, ""};
    reference::EvalReport report;
    try {
      report = eval(views);
    } catch (const Error& error) {  // a form that REF does not take says nothing about the step
      report.incomplete = true;
      verdict.text = error.what();
    }
    // A check that is lowered already stores what it reports; the inputs themselves are inside everywhere.
    const bool reported = report.index_fault || after.back().at(0).i != 0;
    after.pop_back();
    if (!report.faults.empty()) {
      verdict.outcome = Outcome::Wrong;
      verdict.text = first_of(report.faults);
    } else if (reported) {
      verdict.outcome = Outcome::Wrong;
      verdict.text = kReportsOutside;
    } else if (report.incomplete || report.sampled) {
      if (verdict.text.empty()) verdict.text = "too long for REF";
    } else {
      const Node ran = last_kernel_;
      const verify::Judgement judged = expected_.judge(setting_.before(), after, [&] { return ran; });
      verdict.outcome = judged.failed > 0   ? Outcome::Wrong
                        : judged.passed > 0 ? Outcome::Right
                                            : Outcome::Unknown;
      if (judged.failed > 0 && judged.slot >= 0)
        out_.difference =
            difference_map(setting_.subject().kernel, setting_.subject().bindings, expected_.report().samples,
                           judged.slot, after[static_cast<std::size_t>(judged.slot)]);
      verdict.text =
          judged.slot < 0 ? judged.text() : fmt::format("in buffer {} {}", judged.slot, judged.text());
    }
    const bool wrong = verdict.outcome == Outcome::Wrong;
    const bool for_now = wrong && is_missing_fence(verdict.text);
    if (wrong && (!suspected_ || !for_now)) {
      suspected_ = out_.steps.size() + 1;
      out_.text = verdict.text;
      out_.rules = rules_.uses();
      out_.before = before_.substr(0, kMostText);
      out_.after = text_.substr(0, kMostText);
    } else if (verdict.outcome == Outcome::Right && suspected_) {  // what was missing is there now
      for (std::size_t i = *suspected_ - 1; i < out_.steps.size(); ++i)
        out_.steps[i].outcome = Outcome::Right;
      suspected_.reset();
      out_.text.clear();
    }
    done_ = wrong && !for_now;
    before_ = text_;
    rules_.clear();
    out_.steps.push_back(std::move(verdict));
    if (done_) finish();
  }

  static std::string part_of(std::string_view name) {
    for (const engine::ListedStep& row : engine::all_steps())
      if (name == row.step.name && std::string_view(row.part) != "schedule") return row.part;
    return "schedule";
  }

  const Setting& setting_;
  StepsRun& out_;
  const verify::Expected expected_;
  StepSink* outer_;  // of an experiment around this one: what it puts in is looked at
  Node last_kernel_;
  RuleCheck rules_;
  std::string before_, text_;             // of the step before, and of this one
  std::optional<std::size_t> suspected_;  // so many steps, of which the last is wrong
  bool done_ = false;
};

}  // namespace

StepsRun run_steps_on_ref(const Subject& subject, const Conditions& conditions) {
  const Scope scope;
  const Setting setting(subject, conditions);
  StepsRun out;
  StepsOnRef seen(setting, out);
  if (seen.report().incomplete || seen.report().index_fault) {
    out.text = seen.report().incomplete ? seen.report().reason : std::string(kOutsideInputs);
    return out;
  }
  seen.start(subject.kernel);
  if (out.outcome == Outcome::Wrong) return out;
  try {
    const engine::ExperimentScope experiment({.trace = &seen, .sink = &seen});
    setting.lower();
  } catch (const InternalError& error) {
    if (out.outcome != Outcome::Wrong) out.outcome = Outcome::Refused, out.text = error.what();
  } catch (const KernelOptError& error) {
    if (out.outcome != Outcome::Wrong) out.outcome = Outcome::Refused, out.text = error.what();
  }
  if (out.outcome == Outcome::Unknown) seen.finish();
  if (out.outcome != Outcome::Unknown) return out;
  const bool all =
      std::ranges::all_of(out.steps, [](const StepVerdict& step) { return step.outcome == Outcome::Right; });
  if (all) out.outcome = Outcome::Right;
  return out;
}

}  // namespace lathe::investigate
