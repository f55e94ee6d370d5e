#include "investigate/kernel_investigation.h"

#include <algorithm>
#include <optional>
#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/compile_context.h"
#include "investigate/notebook.h"
#include "investigate/repro_file.h"
#include "investigate/shrink.h"
#include "ir/build.h"
#include "ir/op.h"
#include "ir/walk.h"

namespace lathe::investigate {
namespace {

using dev::Verdict;

// Inputs that are made up differently, where the first show nothing; runs that must give the same bits.
constexpr std::uint64_t kSeeds = 4;
constexpr int kRuns = 3;
// Rules that are left out one by one.
constexpr std::size_t kMostRules = 40;
// The step that applies options; others do what it left to do.
constexpr std::string_view kOptionStep = "option_ranges";
// The part of the time that is left which making it smaller may take, and experiments it may do.
constexpr double kShrinkShare = 0.5;
constexpr std::size_t kMostSmaller = 600;

// Where the value is lost.
struct Place {
  enum class Kind : std::uint8_t { Unknown, Scheduled, Step, Refused, Device } kind = Kind::Unknown;
  std::string step, text;
  bool optional = false;
  std::string rule;                 // that an error of the verifier names
  std::vector<std::string> circle;  // rules that undo each other, as an error says
  std::vector<RuleUse> rules;
  std::string before, after;  // what the step got and gave
  Rows difference;
  bool operator==(const Place& o) const { return kind == o.kind && step == o.step && rule == o.rule; }
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool is_known_rule(const std::string& name) {
  const std::vector<std::string_view> known = engine::known_rules();
  return std::ranges::find(known, name) != known.end();
}

// The step, and rules, that an error of Lathe itself names.
Place place_of_error(const std::string& text) {
  static const std::regex pass(R"(after pass ([\w-]+)(?:, rule ([\w-]+) of [\w-]+)?)"),
      step(R"(in step ([\w-]+):)"), circle(R"(rules ([\w-]+) and ([\w-]+) undo each other)");
  Place out;
  out.kind = Place::Kind::Refused;
  out.text = first_line(text);
  std::smatch found;
  if (std::regex_search(text, found, pass)) {
    out.step = found[1];
    out.rule = found[2];
  } else if (std::regex_search(text, found, step)) {
    out.step = found[1];
  }
  if (std::regex_search(text, found, circle)) {
    out.circle = {found[1]};
    if (found[2] != found[1]) out.circle.push_back(found[2]);
  }
  return out;
}

bool is_right_in(const StepsRun& run, const std::string& step) {
  return std::ranges::any_of(run.steps, [&](const StepVerdict& verdict) {
    return verdict.name == step && verdict.outcome == Outcome::Right;
  });
}

class KernelInvestigation {
 public:
  KernelInvestigation(const Subject& subject, Laboratory& laboratory, const dev::InvestigationLimits& limits,
                      const dev::OnHypothesis& told)
      : original_(subject),
        laboratory_(laboratory),
        limits_(limits),
        notes_(finding_, limits.seconds, told) {}

  dev::Finding run() {
    try {
      if (reproduces()) {
        place_ = find_place(original_);
        tell_place();
        shrink_it();
        find_cause();
        find_way_out();
      }
    } catch (const Stopped&) {
      if (finding_.summary.empty()) finding_.summary = "the investigation was ended before it found a cause";
    }
    finish();
    return std::move(finding_);
  }

 private:
  DeviceRun device(const Subject& subject, const Conditions& conditions = {}, int runs = 1) {
    return laboratory_.device(subject, conditions, runs);
  }

  // ---- whether it fails at all

  bool reproduces() {
    const std::uint64_t first = original_.seed;
    for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
      original_.seed = seed;
      failure_ = device(original_, {}, kRuns);
      if (failure_.outcome != Outcome::Right) break;
    }
    const bool fails = is_failure(failure_.outcome);
    notes_.tell(fmt::format("the kernel on {} differs from REF on the same inputs", original_.device),
                fmt::format("compiled and run {} times, every element judged by its bound", kRuns),
                fmt::format("{}: {}", name(failure_.outcome), first_line(failure_.text)),
                fails                                ? Verdict::Confirmed
                : failure_.outcome == Outcome::Right ? Verdict::Refuted
                                                     : Verdict::Unknown);
    if (fails) {
      if (failure_.outcome == Outcome::Wrong)
        notes_.tell("the same inputs give different bits from run to run", fmt::format("{} runs", kRuns),
                    failure_.same_bits ? "the same bits in all of them" : "some runs differ",
                    failure_.same_bits ? Verdict::Refuted : Verdict::Confirmed);
      return true;
    }
    if (failure_.outcome == Outcome::Right) {
      finding_.summary = fmt::format("the kernel does not fail here: {}", failure_.text);
      return false;
    }
    const StepsRun steps = laboratory_.steps(original_, {});
    if (steps.outcome == Outcome::Wrong && steps.steps.size() == 1) {
      place_ = find_place(original_);
      tell_place();
      finding_.kind = "schedule";
      finding_.cause = "the kernel as scheduled";
      finding_.summary = "the kernel is wrong as scheduled: " + steps.text;
      return false;
    }
    finding_.summary = fmt::format("nothing can be said about the kernel: {}", first_line(failure_.text));
    return false;
  }

  // ---- where the value is lost

  Place find_place(const Subject& subject) { return find_place(laboratory_, subject); }
  static Place find_place(Laboratory& laboratory, const Subject& subject) {
    const StepsRun run = laboratory.steps(subject, {});
    Place out;
    out.text = run.text;
    if (run.outcome == Outcome::Wrong && !run.steps.empty()) {
      const StepVerdict& last = run.steps.back();
      out.kind = run.steps.size() == 1 ? Place::Kind::Scheduled : Place::Kind::Step;
      out.step = last.name;
      out.optional = last.optional;
      out.rules = run.rules;
      out.before = run.before, out.after = run.after;
      out.difference = run.difference;
    } else if (run.outcome == Outcome::Refused) {
      out = place_of_error(run.text);
    } else if (run.outcome == Outcome::Right) {
      out.kind = Place::Kind::Device;
    }
    return out;
  }

  void tell_place() {
    const std::string how = "the kernel after each step, and the program, evaluated on REF";
    switch (place_.kind) {
      case Place::Kind::Step:
        notes_.tell(fmt::format("the step {} is the first that changes the value", place_.step), how,
                    place_.text, Verdict::Confirmed);
        return;
      case Place::Kind::Scheduled:
        notes_.tell("the kernel is wrong as scheduled", how, place_.text, Verdict::Confirmed);
        return;
      case Place::Kind::Refused:
        notes_.tell(fmt::format("the step {} gives something malformed",
                                place_.step.empty() ? "that failed" : place_.step),
                    how, place_.text, place_.step.empty() ? Verdict::Partial : Verdict::Confirmed);
        return;
      case Place::Kind::Device:
        notes_.tell(
            "a step of the compile changes the value", how,
            "the result of every step is right, and so is the program: the printer or the compiler after "
            "it is not",
            Verdict::Refuted);
        return;
      case Place::Kind::Unknown:
        notes_.tell("a step of the compile changes the value", how, place_.text, Verdict::Unknown);
        return;
    }
  }

  // ---- smaller

  // Whether a candidate fails as the kernel does: in the same step, or on the device while its program is
  // right.
  bool fails_alike(Laboratory& laboratory, const Subject& candidate) const {
    const auto fails = [&] { return laboratory.device(candidate, {}, 1).outcome == failure_.outcome; };
    switch (place_.kind) {
      case Place::Kind::Step:
      case Place::Kind::Scheduled:
      case Place::Kind::Refused: return find_place(laboratory, candidate) == place_ && fails();
      default: return fails();
    }
  }

  void shrink_it() {
    small_ = original_;
    const double until = notes_.seconds_left() * (1 - kShrinkShare);
    std::size_t tried = 0;
    const FirstFailing first_failing = [&](std::span<const Subject> candidates) {
      if (notes_.seconds_left() <= until || tried >= kMostSmaller) return candidates.size();
      tried += candidates.size();
      std::vector<char> fails(candidates.size());
      laboratory_.for_each(candidates.size(), [&](Laboratory& laboratory, std::size_t i) {
        const Scope scope;
        fails[i] = fails_alike(laboratory, candidates[i]);
      });
      return static_cast<std::size_t>(std::ranges::find(fails, 1) - fails.begin());
    };
    const std::size_t at_a_time = laboratory_.side_by_side();
    const std::int64_t before = node_count(original_.kernel);
    small_ = shrink(original_, first_failing, at_a_time);
    // What was not known of the large one may be known of this one.
    Place place = find_place(small_);
    if (place_.kind == Place::Kind::Unknown && place.kind != Place::Kind::Unknown) {
      place_ = place;
      tell_place();
      small_ = shrink(small_, first_failing, at_a_time);
      place = find_place(small_);
    }
    if (place == place_) place_ = place;
    const DeviceRun again = device(small_, {}, kRuns);
    difference_ = again.difference;
    const bool same = is_failure(again.outcome);
    notes_.tell(fmt::format("a kernel of {} nodes fails in the same way", node_count(small_.kernel)),
                fmt::format("{} smaller kernels tried, the last one run again", tried),
                fmt::format("{} nodes before; {}: {}", before, name(again.outcome), first_line(again.text)),
                same ? Verdict::Confirmed : Verdict::Refuted);
    if (!same) small_ = original_, place_ = find_place(original_);
  }

  // ---- what to blame

  void find_cause() {
    switch (place_.kind) {
      case Place::Kind::Scheduled: blame("schedule", "the kernel as scheduled", place_.text); return;
      case Place::Kind::Step: {
        const std::optional<std::string> rule = guilty_rule();
        if (rule) {
          blame("rule", *rule, fmt::format("it was applied in the step {}", place_.step));
          return;
        }
        look_at_options();
        if (place_.step == kOptionStep && needed_options_.size() == 1)
          blame("option", needed_options_[0], fmt::format("in the step {}, {}", place_.step, place_.text));
        else
          blame("step", place_.step, place_.text);
        return;
      }
      case Place::Kind::Refused:
        if (const std::optional<std::string> rule = endless_rule())
          blame("rule", *rule, "it is applied to its own results without end");
        else if (!place_.rule.empty())
          blame("rule", place_.rule, fmt::format("its result in the step {} is malformed", place_.step));
        else if (!place_.step.empty())
          blame("step", place_.step, place_.text);
        look_at_options();
        return;
      case Place::Kind::Device: look_at_printers(); return;
      case Place::Kind::Unknown: look_at_options(); return;
    }
  }

  void blame(const std::string& kind, const std::string& cause, const std::string& why) {
    finding_.kind = kind;
    finding_.cause = cause;
    finding_.summary = fmt::format("{} {} is wrong: {}", kind, cause, first_line(why));
  }

  // Of rules that undo each other, the one without which the kernel compiles; where that holds of each of
  // them, nobody can say which is wrong, and all are named.
  std::optional<std::string> endless_rule() {
    std::vector<std::string> guilty;
    for (const std::string& rule : place_.circle) {
      const DeviceRun run = device(small_, {.without = {rule}});
      const bool compiles = run.outcome != Outcome::Refused;
      notes_.tell(fmt::format("the rule {} is applied without end", rule), "compiled without it",
                  fmt::format("{}: {}", name(run.outcome), first_line(run.text)),
                  compiles ? Verdict::Confirmed : Verdict::Refuted);
      if (compiles) guilty.push_back(rule);
    }
    if (guilty.empty()) return std::nullopt;
    return fmt::format("{}", fmt::join(guilty, " and "));
  }

  // Without the rule every step is right, and so is the device. One whose two sides were seen to differ goes
  // first; of one whose sides agree wherever they could be evaluated that alone does not make it guilty.
  std::optional<std::string> guilty_rule() {
    std::vector<RuleUse> rules = place_.rules;
    std::ranges::stable_sort(rules, {}, [](const RuleUse& r) { return !r.changes_value; });
    if (rules.size() > kMostRules) rules.resize(kMostRules);
    std::optional<std::string> cleared;
    int clearing = 0;
    for (const RuleUse& rule : rules) {
      const Conditions without{.without = {rule.name}};
      const StepsRun steps = laboratory_.steps(small_, without);
      const bool right = steps.outcome == Outcome::Right && device(small_, without).outcome == Outcome::Right;
      const bool later = !right && is_right_in(steps, place_.step);
      const bool needed = steps.outcome != Outcome::Right && steps.outcome != Outcome::Wrong;
      if (!right && !rule.changes_value) continue;
      std::string evidence =
          right   ? "without it every step is right, and so is the device"
          : later ? fmt::format("without it {} is right, and {} is not", place_.step, steps.steps.back().name)
                  : "without it the kernel is wrong all the same";
      if (rule.changes_value) evidence += "; " + rule.example;
      const bool guilty = (right || later || needed) && rule.changes_value;
      notes_.tell(fmt::format("the rule {} of {} changes the value", rule.name, rule.table),
                  "evaluated both sides wherever it applied; compiled without it", evidence,
                  guilty  ? Verdict::Confirmed
                  : right ? Verdict::Partial
                          : Verdict::Refuted);
      if (guilty) return rule.name;
      if (right) ++clearing, cleared = rule.name;
    }
    if (!rules.empty() && clearing == 0)
      notes_.tell(
          fmt::format("one of the {} rules applied in {} changes the value", rules.size(), place_.step),
          "compiled without each of them", "the kernel is wrong without any of them", Verdict::Refuted);
    // A step that only applies rules has nothing else to be wrong.
    const bool only_rules = place_.step == "simplify";
    return clearing == 1 && only_rules ? cleared : std::nullopt;
  }

  void look_at_options() {
    if (small_.options.empty()) {
      if (!original_.options.empty())
        notes_.tell("an option is needed for the failure", "the smaller kernel has none", "it fails without",
                    Verdict::Refuted);
      return;
    }
    for (std::size_t i = 0; i < small_.options.size(); ++i) {
      Subject without = small_;
      without.options.erase(without.options.begin() + static_cast<std::ptrdiff_t>(i));
      const DeviceRun run = device(without);
      if (run.outcome == Outcome::Refused) continue;  // others need it
      const bool needed = run.outcome == Outcome::Right;
      const std::string option = to_string({&small_.options[i], 1});
      notes_.tell(fmt::format("the option {} is needed for the failure", option), "compiled without it",
                  fmt::format("{}: {}", name(run.outcome), first_line(run.text)),
                  needed ? Verdict::Confirmed : Verdict::Refuted);
      if (needed) needed_options_.push_back(option);
    }
  }

  void look_at_printers() {
    const std::string other = other_printer();
    if (other.empty()) {
      blame("printer", fmt::format("of {}", small_.device), "the program is right on REF");
      return;
    }
    const DeviceRun run = device(small_, {.printer = other});
    const bool right = run.outcome == Outcome::Right;
    notes_.tell(fmt::format("the {} printer, or the compiler after it, is wrong", this_printer()),
                fmt::format("the same program through the {} printer", other),
                fmt::format("{}: {}", name(run.outcome), first_line(run.text)),
                right                             ? Verdict::Confirmed
                : run.outcome == Outcome::Unknown ? Verdict::Unknown
                                                  : Verdict::Refuted);
    const std::string wrong = wrong_by_itself();
    if (right)
      blame("printer", this_printer(),
            "the program is right on REF and through the other printer; " +
                (wrong.empty() ? "it has " + operations() : wrong + " is wrong by itself"));
    else if (is_failure(run.outcome))
      blame("device", small_.device, "the program is right on REF and wrong through both printers");
  }

  std::string this_printer() const { return small_.printer.empty() ? "llvm" : small_.printer; }
  std::string other_printer() const {
    if (small_.device.rfind("CPU", 0) != 0) return "";
    return this_printer() == "llvm" ? "c" : "llvm";
  }

  std::string operations() const {
    std::vector<std::string_view> names;
    for (Node n : toposort(small_.kernel)) {
      const bool says =
          is_scalar_op(n.op()) || n.is(Op::Reduce) || n.is(Op::Load) || n.is(Op::Store) || n.is(Op::Cast);
      if (!says || n.dtype().is_index()) continue;
      if (std::ranges::find(names, info(n.op()).name) == names.end()) names.push_back(info(n.op()).name);
    }
    return fmt::format("{}", fmt::join(names, " "));
  }

  // Each operation of the small kernel in a kernel of its own, alone and several at a time.
  std::string wrong_by_itself() {
    constexpr std::int64_t kElements = 96;
    constexpr std::size_t kMostProbes = 24;
    std::vector<std::string> tried, wrong;
    for (Node n : toposort(small_.kernel)) {
      if (!(is_scalar_op(n.op()) || n.is(Op::Cast)) || n.dtype().is_index() || n.dtype().lanes > 1) continue;
      const bool plain = std::ranges::all_of(n.args(), [](Node a) { return !a.dtype().is_index(); });
      std::string called = fmt::format("{} of {}", info(n.op()).name, n.arg(n.arg_count() - 1).dtype().str());
      if (!plain || std::ranges::find(tried, called) != tried.end() || tried.size() >= kMostProbes) continue;
      tried.push_back(called);
      const Node at = range(index_const(kElements), 0, RangeKind::Global);
      std::vector<Node> operands;
      for (Node a : n.args())
        operands.push_back(
            load(param(a.dtype(), static_cast<std::int64_t>(operands.size()) + 1, kElements), at));
      const Node value = rebuild(n, operands);
      const Node effect = end(store(param(n.dtype(), 0, kElements), at, value), {&at, 1});
      Subject probe = small_;
      probe.kernel = sink({&effect, 1});
      probe.known.clear(), probe.given.clear(), probe.inputs.clear(), probe.bindings.clear();
      for (const char* options : {"", "UPCAST(0, 8)"}) {
        probe.options = parse_opts(options);
        if (device(probe).outcome != Outcome::Wrong) continue;
        wrong.push_back(called);
        break;
      }
    }
    if (tried.empty()) return "";
    const std::string all = fmt::format("{}", fmt::join(wrong, ", "));
    notes_.tell(
        "one of its operations is wrong by itself",
        fmt::format("each of {} operations in a kernel of its own, with vectors and without", tried.size()),
        wrong.empty() ? "all of them are right alone" : all + " differs from REF",
        wrong.empty() ? Verdict::Refuted : Verdict::Confirmed);
    return all;
  }

  // ---- a way out

  struct WayOut {
    std::string text;
    Conditions conditions;
  };

  std::vector<WayOut> ways_out() const {
    std::vector<WayOut> out;
    if (finding_.kind == "rule" && is_known_rule(finding_.cause))
      out.push_back({"LATHE_WITHOUT=" + finding_.cause, {.without = {finding_.cause}}});
    if (place_.optional && is_known_rule(place_.step))
      out.push_back({"LATHE_WITHOUT=" + place_.step, {.without = {place_.step}}});
    if (!original_.options.empty()) out.push_back({"LATHE_NOOPT=1", {.without_options = true}});
    if (const std::string other = other_printer(); !other.empty())
      out.push_back({"LATHE_CPU=" + other, {.printer = other}});
    return out;
  }

  void find_way_out() {
    for (const WayOut& way : ways_out()) {
      const DeviceRun with = device(original_, way.conditions);
      bool holds = with.outcome == Outcome::Right;
      std::string evidence = fmt::format("with it {}", name(with.outcome));
      if (holds) {
        const DeviceRun without = device(original_);
        evidence += fmt::format(", without it {}", name(without.outcome));
        holds = is_failure(without.outcome);
      }
      notes_.tell(fmt::format("{} makes the failure go away", way.text),
                  "the kernel as it came, with and without", evidence,
                  holds ? Verdict::Confirmed : Verdict::Refuted);
      if (!holds) continue;
      finding_.way_out = way.text;
      finding_.way_out_verified = true;
      return;
    }
  }

  void finish() {
    if (!small_.kernel) return;
    if (finding_.summary.empty())
      finding_.summary =
          fmt::format("the kernel is wrong, and why is not known: {}", first_line(failure_.text));
    if (!needed_options_.empty())
      finding_.summary += fmt::format("; it needs the option {}", fmt::join(needed_options_, " "));
    finding_.before = place_.before;
    finding_.after = place_.after;
    finding_.difference = place_.difference.empty() ? difference_ : place_.difference;
    finding_.repro = write_repro(small_, finding_.summary, limits_.folder);
    finding_.repro_nodes = node_count(small_.kernel);
    if (!finding_.repro.empty()) finding_.repro_command = "lathe investigate " + finding_.repro;
  }

  Subject original_, small_;
  Laboratory& laboratory_;
  const dev::InvestigationLimits& limits_;
  dev::Finding finding_;
  Notebook notes_;
  DeviceRun failure_;
  Place place_;
  Rows difference_;  // of what the device leaves of the small one
  std::vector<std::string> needed_options_;
};

}  // namespace

dev::Finding investigate(const Subject& subject, Laboratory& laboratory,
                         const dev::InvestigationLimits& limits, const dev::OnHypothesis& told) {
  return KernelInvestigation(subject, laboratory, limits, told).run();
}

}  // namespace lathe::investigate
