#include "investigate/program_investigation.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "engine/inputs_file.h"
#include "investigate/command.h"
#include "investigate/graph_investigation.h"
#include "investigate/kernel_investigation.h"
#include "investigate/notebook.h"

namespace lathe::investigate {
namespace {

namespace fs = std::filesystem;
using dev::Verdict;

// Runs of the command, where one could fail by chance.
constexpr int kRuns = 3;
// Where it has not failed yet, so many while this part of the time lasts.
constexpr int kRunsUntilGivenUp = 12;
constexpr double kShareOfRuns = 0.3;
// It passes once that many runs in a row do, so that an accident is this unlikely.
constexpr double kAccident = 0.005;
constexpr int kMostRuns = 40;
// Microseconds that work begins late, at most.
constexpr const char* kDelay = "3000";
// Saved graphs that are scheduled again on REF.
constexpr std::size_t kMostGraphs = 40;

// A folder for what the command saves, gone with the object.
class SavedFolder {
 public:
  SavedFolder() {
    path_ = (fs::temp_directory_path() / "lathe-saved-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr)
      throw DeviceError("investigate", "cannot make a folder in " + fs::temp_directory_path().string());
  }
  ~SavedFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  SavedFolder(const SavedFolder&) = delete;
  SavedFolder& operator=(const SavedFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class CommandInvestigation {
 public:
  CommandInvestigation(const std::vector<std::string>& command, Laboratory& laboratory,
                       const dev::InvestigationLimits& limits, const dev::OnHypothesis& told)
      : command_(command),
        laboratory_(laboratory),
        limits_(limits),
        told_(told),
        notes_(finding_, limits.seconds, told) {}

  dev::Finding run() {
    try {
      if (fails() && !a_kernel() && !around_kernels() && !a_schedule() && !only_here() && !rounding() &&
          finding_.summary.empty())
        finding_.summary = fmt::format("the command fails, and why is not known: {}{}", failure_.text(),
                                       nan_.empty() ? "" : "; " + nan_);
    } catch (const Stopped&) {
      if (finding_.summary.empty()) finding_.summary = "the investigation was ended before it found a cause";
    }
    if (finding_.repro_command.empty()) finding_.repro_command = fmt::format("{}", fmt::join(command_, " "));
    return std::move(finding_);
  }

 private:
  // Nothing hides what is wrong, and nothing comes from an earlier process.
  CommandRun once(Variables more = {}) {
    Variables variables{{"LATHE_CHECK", "off"}, {"LATHE_CACHE", "off"}};
    if (delayed_) variables.emplace_back("LATHE_DELAY", kDelay);
    variables.insert(variables.end(), more.begin(), more.end());
    const double left = notes_.seconds_left();
    return run_command(command_, variables,
                       std::max(1.0, limits_.run_seconds > 0 ? std::min(limits_.run_seconds, left) : left));
  }
  // Which of so many runs is the first to fail; 0 if none does.
  int first_failure(const Variables& more, int runs) {
    for (int i = 0; i < runs; ++i)
      if (!once(more).ok()) return i + 1;
    return 0;
  }

  bool fails() {
    Runs runs = some_fail("the command fails", "run with LATHE_CHECK=off", kRuns);
    // What comes and goes may come with other orders of work.
    if (runs.failed < runs.all) {
      delayed_ = true;
      const Runs late = some_fail(
          "the command fails where work begins late",
          fmt::format("run with LATHE_DELAY={}: each kernel and copy begins after a random time", kDelay),
          kRunsUntilGivenUp);
      delayed_ = late.rate() > runs.rate();
      if (delayed_) runs = late;
    }
    if (runs.failed > 0 && runs.failed < runs.all)
      runs_to_pass_ = std::clamp(static_cast<int>(std::ceil(std::log(kAccident) / std::log(1 - runs.rate()))),
                                 2 * kRuns, kMostRuns);
    if (failure_.end == CommandRun::End::NotStarted) {
      finding_.summary = "the command " + failure_.text();
      return false;
    }
    if (runs.failed == 0) finding_.summary = "the command does not fail here";
    return runs.failed > 0;
  }

  struct Runs {
    int failed = 0, all = 0;
    double rate() const { return static_cast<double>(failed) / (all + 1); }
  };
  // Some runs, and more until one of them fails.
  Runs some_fail(const std::string& claim, const std::string& experiment, int most) {
    const double until = notes_.seconds_left() * (1 - kShareOfRuns);
    Runs runs;
    while (runs.all < kRuns || (runs.failed == 0 && runs.all < most && notes_.seconds_left() > until)) {
      ++runs.all;
      if (const CommandRun run = once(); !run.ok()) ++runs.failed, failure_ = run;
    }
    // How often it fails decides how much a pass says.
    if (runs.failed > 0 && runs.failed < runs.all)
      while (runs.all < most && notes_.seconds_left() > until) ++runs.all, runs.failed += !once().ok();
    notes_.tell(claim, experiment,
                runs.failed == 0 ? fmt::format("it ended with status 0 in each of {} runs", runs.all)
                                 : fmt::format("{} of {} runs: {}", runs.failed, runs.all, failure_.text()),
                runs.failed == 0 ? Verdict::Refuted : Verdict::Confirmed);
    return runs;
  }

  // Every kernel against REF on the inputs it has in the command.
  bool a_kernel() {
    const CommandRun verified = once({{"LATHE_VERIFY", "1"}, {"LATHE_SAVE", saved_.path()}});
    static const std::string kSays = "lathe: verify: kernel ";
    const std::string all = verified.errors + verified.output;
    const std::size_t at = all.find(kSays);
    std::string kernel;
    if (at != std::string::npos) {
      const std::size_t begin = at + kSays.size();
      kernel = all.substr(begin, all.find(' ', begin) - begin);
    }
    notes_.tell("one of its kernels is wrong",
                "the command with LATHE_VERIFY=1: every kernel against REF, on its own inputs",
                kernel.empty() ? fmt::format("no kernel differs; the command {}", verified.text())
                               : all.substr(at, all.find('\n', at) - at),
                kernel.empty() ? Verdict::Refuted : Verdict::Confirmed);
    first_nan(all);
    if (kernel.empty()) return false;
    // The one that is wrong has its inputs beside it; with made-up ones it becomes smaller.
    for (const bool made_up : {true, false})
      for (const std::string& path : saved_files(kernel + "_", ".txt")) {
        Subject subject = read_subject(path);
        if (const std::string inputs = engine::inputs_beside(path); !made_up && fs::exists(inputs))
          subject = with_inputs(subject, inputs);
        else if (!made_up)
          continue;
        if (!is_failure(laboratory_.device(subject, {}, 1).outcome)) continue;
        return take(
            hand_over([&](const auto& limits) { return investigate(subject, laboratory_, limits, told_); }));
      }
    notes_.tell(fmt::format("the kernel {} is wrong by itself", kernel),
                "run alone, in separate memory, on generated inputs and on those of the command",
                "it is right there", Verdict::Partial);
    wrong_kernel_ = kernel;
    return false;
  }

  // A kernel that is right may still be where a program's numbers stop being numbers.
  void first_nan(const std::string& said) {
    static const std::string kSays = "NaN or infinity comes first from kernel ";
    const std::size_t at = said.find(kSays);
    if (at == std::string::npos) return;
    nan_ = said.substr(at, said.find('\n', at) - at);
    notes_.tell("numbers become NaN or infinite on the way",
                "the command with LATHE_VERIFY=1: the first kernel that makes such of finite inputs", nan_,
                Verdict::Confirmed);
  }

  bool only_here() {
    if (wrong_kernel_.empty()) return false;
    finding_.kind = "kernel";
    finding_.cause = wrong_kernel_;
    finding_.summary =
        fmt::format("the kernel {} is wrong on the inputs that the command gives it", wrong_kernel_);
    return true;
  }

  // Kernels that do what they say, and are not what the graph says.
  bool a_schedule() {
    std::size_t looked = 0;
    for (const std::string& path : saved_files("graph_", ".txt")) {
      if (++looked > kMostGraphs) break;
      const GraphSubject graph = read_graph(path);
      if (laboratory_.schedule(graph, {}).outcome != Outcome::Wrong) continue;
      notes_.tell("a graph is scheduled wrongly",
                  "each graph of the command scheduled again, every step on REF",
                  fmt::format("number {} of them", looked), Verdict::Confirmed);
      return take(
          hand_over([&](const auto& limits) { return investigate(graph, laboratory_, limits, told_); }));
    }
    notes_.tell("a graph is scheduled wrongly",
                "each graph of the command scheduled again, every step on REF",
                fmt::format("{} graphs are scheduled as they should be", looked), Verdict::Refuted);
    return false;
  }

  struct Harmless {
    const char* kind;
    const char* claim;
    Variables variables;
  };

  // Kernels and graphs are right: is what they compute only rounded?
  bool rounding() {
    return harmless({"numerics", "rounding of floats makes it fail", {{"LATHE_WIDE", "1"}}});
  }

  // What is around the kernels, made harmless one by one.
  bool around_kernels() {
    Harmless all[] = {
        {"memory plan", "two buffers that are needed at once share memory", {{"LATHE_REUSE", "0"}}},
        {"wait", "a kernel or a copy does not wait for what it needs", {{"LATHE_SERIAL", "1"}}},
        {"capture", "a replay does not do what the captured function does", {{"LATHE_CAPTURE", "0"}}},
        {"devices", "tensors that meet are on different devices", {{"LATHE_ONE_DEVICE", "1"}}},
    };
    if (delayed_) std::swap(all[0], all[1]);  // what fails where work begins late hardly waits
    return std::ranges::any_of(all, [&](const Harmless& thing) { return harmless(thing); });
  }

  // Whether the command passes with it, and fails without.
  bool harmless(const Harmless& thing) {
    const int runs = runs_to_pass_;
    const std::string flag = thing.variables[0].first + "=" + thing.variables[0].second;
    const int with = first_failure(thing.variables, runs);
    const int without = with == 0 ? first_failure({}, runs) : -1;
    const bool holds = with == 0 && without > 0;
    notes_.tell(thing.claim, fmt::format("the command with {}, and without again", flag),
                with > 0      ? fmt::format("with it run {} fails", with)
                : without > 0 ? fmt::format("no run of {} fails with it, run {} without", runs, without)
                              : fmt::format("no run of {} fails with it or without", runs),
                holds      ? Verdict::Confirmed
                : with > 0 ? Verdict::Refuted
                           : Verdict::Unknown);
    if (!holds) return false;
    finding_.kind = finding_.cause = thing.kind;
    finding_.summary =
        fmt::format("{}; with {} the command does not fail ({})", thing.claim, flag, failure_.text());
    finding_.way_out = flag;
    finding_.way_out_verified = true;
    return true;
  }

  std::vector<std::string> saved_files(const std::string& begin, const std::string& end) const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(saved_.path()))
      if (const std::string name = entry.path().filename().string();
          name.starts_with(begin) && name.ends_with(end))
        out.push_back(entry.path().string());
    std::ranges::sort(out);
    return out;
  }

  template <class Investigate>
  dev::Finding hand_over(Investigate&& investigate_it) {
    dev::InvestigationLimits rest = limits_;
    rest.seconds = std::max(1.0, notes_.seconds_left());
    return investigate_it(rest);
  }
  // What the other investigation found, after what this one did.
  bool take(dev::Finding found) {
    std::vector<dev::Hypothesis> all = std::move(finding_.hypotheses);
    all.insert(all.end(), found.hypotheses.begin(), found.hypotheses.end());
    finding_ = std::move(found);
    finding_.hypotheses = std::move(all);
    const std::size_t equals = finding_.way_out.find('=');
    if (!finding_.way_out_verified || equals == std::string::npos) return true;
    const Variables way{{finding_.way_out.substr(0, equals), finding_.way_out.substr(equals + 1)}};
    finding_.way_out_verified = first_failure(way, runs_to_pass_) == 0;
    notes_.tell(fmt::format("with {} the command does not fail", finding_.way_out), "the command with it",
                finding_.way_out_verified ? "it ends with status 0" : "it fails all the same",
                finding_.way_out_verified ? Verdict::Confirmed : Verdict::Refuted);
    return true;
  }

  const std::vector<std::string>& command_;
  Laboratory& laboratory_;
  const dev::InvestigationLimits& limits_;
  dev::OnHypothesis told_;
  dev::Finding finding_;
  Notebook notes_;
  SavedFolder saved_;
  CommandRun failure_;
  std::string nan_;           // where the first one comes from
  std::string wrong_kernel_;  // in the command, and right alone
  int runs_to_pass_ = 1;      // in a row, before it counts as not failing
  bool delayed_ = false;      // all work begins late: then it fails more often
};

}  // namespace

dev::Finding investigate_command(const std::vector<std::string>& command, Laboratory& laboratory,
                                 const dev::InvestigationLimits& limits, const dev::OnHypothesis& told) {
  return CommandInvestigation(command, laboratory, limits, told).run();
}

}  // namespace lathe::investigate
