#include "investigate/graph_investigation.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "engine/compile_context.h"
#include "investigate/notebook.h"
#include "investigate/repro_file.h"
#include "ir/walk.h"

namespace lathe::investigate {
namespace {

using dev::Verdict;

constexpr std::size_t kMostRules = 40, kMostParts = 200;

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
    int tried = 0;
    for (std::size_t i = 0; i < std::min(parts.size(), kMostParts); ++i) {
      GraphSubject part{original_.name, {parts[i]}};
      if (node_count(part) >= node_count(small_)) continue;
      ++tried;
      const StepsRun run = laboratory_.schedule(part, {});
      if (run.outcome != Outcome::Wrong || run.steps.back().name != step_.name) continue;
      small_ = std::move(part);
      run_ = run;
      break;
    }
    notes_.tell(fmt::format("a graph of {} nodes fails in the same way", node_count(small_)),
                fmt::format("{} parts of it tried", tried), first_line(run_.text), Verdict::Confirmed);
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
                  "both sides evaluated wherever it applied; scheduled without it", evidence,
                  guilty  ? Verdict::Confirmed
                  : right ? Verdict::Partial
                          : Verdict::Refuted);
      if (guilty) {
        blame("rule", rule.name, fmt::format("it is applied in the step {}", step_.name));
        return;
      }
      if (right) cleared.push_back(rule.name);
    }
    if (cleared.size() == 1)
      blame("rule", cleared[0], fmt::format("without it alone the step {} is right", step_.name));
    else if (step_.name == "kernels")
      blame("step", "plan_kernels",
            "each kernel is what it was when it was planned, and together they are wrong");
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
};

}  // namespace

dev::Finding investigate(const GraphSubject& subject, Laboratory& laboratory,
                         const dev::InvestigationLimits& limits, const dev::OnHypothesis& told) {
  return GraphInvestigation(subject, laboratory, limits, told).run();
}

}  // namespace lathe::investigate
