#include "investigate/graph_investigation.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "engine/compile_context.h"
#include "investigate/notebook.h"
#include "investigate/repro_file.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe::investigate {
namespace {

using dev::Verdict;

constexpr std::size_t kMostRules = 40, kMostParts = 200;
// The part of the time that making the graph smaller may take.
constexpr double kShrinkShare = 0.4;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool is_right_in(const StepsRun& run, const std::string& step) {
  return std::ranges::any_of(run.steps, [&](const StepVerdict& verdict) {
    return verdict.name == step && verdict.outcome == Outcome::Right;
  });
}

class GraphInvestigation {
 public:
  GraphInvestigation(const GraphSubject& subject, Laboratory& laboratory,
                     const dev::InvestigationLimits& limits, const dev::OnHypothesis& told)
      : original_(subject),
        small_(subject),
        laboratory_(laboratory),
        limits_(limits),
        notes_(finding_, limits.seconds, told) {}

  dev::Finding run() {
    try {
      if (fails()) {
        shrink_it();
        find_cause();
        find_way_out();
        finding_.before = run_.before, finding_.after = run_.after;
        finding_.repro = write_repro(small_, finding_.summary, limits_.folder);
        finding_.repro_nodes = node_count(small_);
        if (!finding_.repro.empty()) finding_.repro_command = "lathe investigate " + finding_.repro;
      }
    } catch (const Stopped&) {
      if (finding_.summary.empty()) finding_.summary = "the investigation was ended before it found a cause";
    }
    return std::move(finding_);
  }

 private:
  bool fails() {
    run_ = laboratory_.schedule(original_, {});
    const bool wrong = run_.outcome == Outcome::Wrong && !run_.steps.empty();
    if (wrong) step_ = run_.steps.back();
    notes_.tell("scheduling changes the value",
                "the graph, or its kernels, after each step, evaluated on REF",
                wrong ? fmt::format("{}: {}", step_.name, first_line(run_.text))
                      : fmt::format("{} {}", name(run_.outcome), first_line(run_.text)),
                wrong                            ? Verdict::Confirmed
                : run_.outcome == Outcome::Right ? Verdict::Refuted
                                                 : Verdict::Unknown);
    if (wrong) return true;
    finding_.summary = run_.outcome == Outcome::Right
                           ? "the graph is scheduled as it should be"
                           : "nothing can be said about the graph: " + first_line(run_.text);
    return false;
  }

  // The first part of the graph that fails in the same step by itself.
  void shrink_it() {
    const std::vector<Node> targets(original_.targets.begin(), original_.targets.end());
    std::vector<Node> parts = toposort(targets);
    std::erase_if(parts,
                  [](Node n) { return n.arg_count() == 0 || n.rank() == 0 || n.dtype() == dtypes::Void; });
    for (std::size_t i = 0; i < std::min(parts.size(), kMostParts); ++i)
      if (take({original_.name, {parts[i]}})) break;
    for (bool again = true; again;) again = cut_somewhere();
    notes_.tell(fmt::format("a graph of {} nodes fails in the same way", node_count(small_)),
                fmt::format("{} smaller ones tried", tried_), first_line(run_.text), Verdict::Confirmed);
  }

  // Whether it is smaller and fails in the same step.
  bool take(GraphSubject candidate) {
    const double until = limits_.seconds * kShrinkShare;
    if (node_count(candidate) >= node_count(small_) || limits_.seconds - notes_.seconds_left() > until)
      return false;
    ++tried_;
    const StepsRun run = laboratory_.schedule(candidate, {});
    if (run.outcome != Outcome::Wrong || run.steps.back().name != step_.name) return false;
    small_ = std::move(candidate);
    run_ = run;
    return true;
  }

  // A value becomes an input, or one of its operands.
  bool cut_somewhere() {
    if (small_.targets.size() != 1) return false;
    const Node target = small_.targets[0];
    const std::vector<Node> order = toposort(target);
    for (std::size_t i = order.size(); i-- > 0;) {
      const Node n = order[i];
      if (n.arg_count() == 0 || n.rank() == 0 || n.dtype() == dtypes::Void) continue;
      std::vector<Node> instead;
      if (n != target) {
        const std::int64_t size = elements_of(n);
        if (size > 0) instead.push_back(reshape(new_buffer(n.dtype(), size, "CPU"), n.shape()));
      }
      for (Node a : n.args())
        if (a.dtype() == n.dtype() && a.shape_node() == n.shape_node()) instead.push_back(a);
      for (Node other : instead) {
        NodeMap<Node> map;
        map[n] = other;
        if (take({small_.name, {NodeRef(substitute(target, map))}})) return true;
      }
    }
    return false;
  }
  // 0 where that depends on variables.
  static std::int64_t elements_of(Node n) {
    std::int64_t all = 1;
    for (Node size : n.shape()) all *= size.is_const() ? size.const_int() : 0;
    return all;
  }

  void blame(const std::string& kind, const std::string& cause, const std::string& why) {
    finding_.kind = kind;
    finding_.cause = cause;
    finding_.summary = fmt::format("{} {} is wrong: {}", kind, cause, first_line(why));
  }

  void find_cause() {
    std::vector<RuleUse> rules = run_.rules;
    std::ranges::stable_sort(rules, {}, [](const RuleUse& r) { return !r.changes_value; });
    if (rules.size() > kMostRules) rules.resize(kMostRules);
    std::vector<std::string> cleared;
    for (const RuleUse& rule : rules) {
      const StepsRun without = laboratory_.schedule(small_, {.without = {rule.name}});
      const bool right = without.outcome == Outcome::Right || is_right_in(without, step_.name);
      const bool needed = !right && without.outcome != Outcome::Wrong;
      if (!right && !rule.changes_value) continue;
      std::string evidence = right    ? fmt::format("without it {} is right", step_.name)
                             : needed ? "without it nothing can be said: " + first_line(without.text)
                                      : "without it the graph is scheduled wrongly all the same";
      if (rule.changes_value) evidence += "; " + rule.example;
      const bool guilty = (right || needed) && rule.changes_value;
      notes_.tell(fmt::format("the rule {} of {} changes the value", rule.name, rule.table),
                  "evaluated both sides wherever it applied; scheduled without it", evidence,
                  guilty  ? Verdict::Confirmed
                  : right ? Verdict::Partial
                          : Verdict::Refuted);
      if (guilty) {
        blame("rule", rule.name, fmt::format("it was applied in the step {}", step_.name));
        return;
      }
      if (right) cleared.push_back(rule.name);
    }
    if (cleared.size() == 1)
      blame("rule", cleared[0], fmt::format("without it alone the step {} is right", step_.name));
    else if (step_.name == "kernels")
      blame("step", "plan_kernels",
            "each kernel is unchanged since it was planned, but together they are wrong");
    else
      blame("step", step_.name, run_.text);
  }

  void find_way_out() {
    std::vector<std::string> ways;
    const std::vector<std::string_view> known = engine::known_rules();
    for (const std::string& name : {finding_.cause, step_.name})
      if (std::ranges::find(known, name) != known.end()) ways.push_back(name);
    for (const std::string& way : ways) {
      const Outcome with = laboratory_.schedule(original_, {.without = {way}}).outcome;
      const Outcome without = with == Outcome::Right ? laboratory_.schedule(original_, {}).outcome : with;
      const bool holds = with == Outcome::Right && without == Outcome::Wrong;
      notes_.tell(fmt::format("LATHE_WITHOUT={} makes the failure go away", way),
                  "the whole graph, with and without", fmt::format("with it {}", name(with)),
                  holds ? Verdict::Confirmed : Verdict::Refuted);
      if (!holds) continue;
      finding_.way_out = "LATHE_WITHOUT=" + way;
      finding_.way_out_verified = true;
      return;
    }
  }

  GraphSubject original_, small_;
  Laboratory& laboratory_;
  const dev::InvestigationLimits& limits_;
  dev::Finding finding_;
  Notebook notes_;
  StepsRun run_;
  StepVerdict step_;
  int tried_ = 0;
};

}  // namespace

dev::Finding investigate(const GraphSubject& subject, Laboratory& laboratory,
                         const dev::InvestigationLimits& limits, const dev::OnHypothesis& told) {
  return GraphInvestigation(subject, laboratory, limits, told).run();
}

}  // namespace lathe::investigate
