#include "apps/investigations/lab.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <deque>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lathe::investigations {
namespace {

using Json = nlohmann::json;

constexpr int kFirstRuns = 3, kRunsWhenMixed = 12, kRunsUntilGivenUp = 24;
constexpr double kQuick = 1;         // seconds: what runs that fast is repeated more often
constexpr double kAccident = 0.005;  // chance that a flaky failure is taken for a pass
constexpr int kMostRuns = 60;
constexpr const char* kDelay = "3000";           // microseconds that work of Lathe begins late, at most
constexpr std::uint64_t kManyBytes = 16 << 20U;  // of ignored files
constexpr double kShareOfFirstRun = 0.25;        // of the budget, before the command counts as hanging
constexpr std::size_t kRememberedOutput = 64 << 10U;

std::string written(const Judged& j) {
  const Outcome& o = j.outcome;
  const std::size_t from = o.output.size() > kRememberedOutput ? o.output.size() - kRememberedOutput : 0;
  return Json{{"result", static_cast<int>(j.result)},
              {"runs", j.runs},
              {"failures", j.failures},
              {"ending", name(o.ending)},
              {"status", o.status},
              {"seconds", o.seconds},
              {"peak", o.peak},
              {"output", o.output.substr(from)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Judged read(const std::string& text) {
  const Json json = Json::parse(text);
  Judged j;
  j.result = static_cast<Result>(json.at("result").get<int>());
  j.runs = json.at("runs");
  j.failures = json.at("failures");
  j.outcome = {ending_named(json.at("ending").get<std::string>()), json.at("status"), json.at("seconds"),
               json.at("peak"), json.at("output")};
  return j;
}

}  // namespace

std::string Judged::words() const {
  if (result == Result::Passes) return runs == 1 ? "passes" : fmt::format("passes {} times", runs);
  const std::string how = outcome.words();
  if (result == Result::Differs) return "fails otherwise: " + how;
  return runs == 1 ? "fails: " + how : fmt::format("fails in {} of {} runs: {}", failures, runs, how);
}

Lab::Lab(Case& running)
    : case_(running),
      repository_(running.input().directory, running.scratch(), running.input().carry, running.id(),
                  [&running] { return running.early() != Early::No; }),
      limit_(running.input().scenario_seconds > 0 ? running.input().scenario_seconds
                                                  : running.input().seconds * kShareOfFirstRun) {
  for (const std::string& name : repository_.left_behind()) case_.event("repository", "not copied: " + name);
  if (const auto before = case_.store().recall(case_.id(), "snapshot");
      before && *before != repository_.snapshot())
    case_.event("repository", "the tree has changed since the session began: its results are not used");
  case_.store().remember(case_.id(), "snapshot", repository_.snapshot());
}

Scenario Lab::scenario(const Probe& probe, const std::string& worktree) const {
  Scenario s;
  s.label = probe.label;
  s.directory = worktree + "/" + repository_.prefix();
  for (const std::string& word : probe.command.empty() ? command() : probe.command)
    s.command.push_back(repository_.moved(word, worktree));
  Environment environment = case_.environment();
  if (late_) environment["LATHE_DELAY"] = kDelay;
  for (const auto& [name, value] : probe.variables) {
    if (value)
      environment[name] = *value;
    else
      environment.erase(name);
  }
  for (const auto& [name, value] : environment) s.environment[name] = repository_.moved(value, worktree);
  s.seconds = limit_;
  s.memory = case_.input().memory;
  return s;
}

std::string Lab::key(const Probe& probe, int needed) const {
  Json words{{"commit", probe.commit.empty() ? repository_.snapshot() : probe.commit},
             {"command", probe.command},
             {"without", probe.without_ignored},
             {"runs", needed}};
  if (late_) words["late"] = true;
  for (const auto& [name, value] : probe.variables)
    words["variables"][name] = value ? Json(*value) : Json(nullptr);
  return "probe " + words.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Lab::worktree(const Probe& probe) {
  std::string path = repository_.worktree(probe.commit.empty() ? repository_.snapshot() : probe.commit,
                                          lean_ ? repository_.ignored() : probe.without_ignored);
  case_.check();  // where it ended early, the copies are not whole
  return path;
}

std::vector<Outcome> Lab::run(const std::vector<Probe>& probes, const std::vector<std::size_t>& which) {
  case_.check();
  std::vector<Scenario> scenarios;
  std::vector<std::string> trees;
  for (const std::size_t i : which) {
    const Probe& p = probes[i];
    trees.push_back(worktree(p));
    scenarios.push_back(scenario(p, trees.back()));
  }
  std::vector<Outcome> outcomes = case_.run(scenarios);
  // What somebody killed gets a second run; a command that ends so each time is judged so.
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const bool killed =
        outcomes[i].ending == Ending::Lost || (outcomes[i].ending == Ending::Signalled &&
                                               outcomes[i].status == SIGKILL && failing_.status != SIGKILL);
    if (!killed) continue;
    case_.event("scenario", scenarios[i].label + ": killed, run again");
    const Probe& p = probes[which[i]];
    Repository::drop(trees[i]);
    trees[i] = worktree(p);
    outcomes[i] = case_.run({scenario(p, trees[i])}).front();
  }
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    // What a run prints of its worktree is said of the user's tree.
    for (std::size_t at = 0; (at = outcomes[i].output.find(trees[i], at)) != std::string::npos;)
      outcomes[i].output.replace(at, trees[i].size(), repository_.root());
    Repository::drop(trees[i]);
  }
  return outcomes;
}

Failure Lab::failure_of(const Outcome& outcome) const {
  return investigations::failure_of(outcome, {repository_.root()});
}
bool Lab::same(const Outcome& outcome) const { return failure_of(outcome).likeness == failure_.likeness; }

// The same tree and the same command with both outcomes: nothing certain about it.
void Lab::count(const Probe& probe, const Outcome& outcome) {
  const std::string which = key(probe, 0);
  auto& [passed, failed] = counts_[which];
  if (outcome.passed())
    ++passed;
  else if (same(outcome))
    ++failed;
  if (flaky() || passed == 0 || failed == 0) return;
  rate_ = std::clamp(static_cast<double>(failed) / (passed + failed), 0.2, 0.8);
  case_.store().remember(case_.id(), "rate " + as_run(), fmt::format("{}", rate_));
  case_.add({"the failure is flaky", probe.label,
             fmt::format("{} of {} runs of the same tree failed; {} consecutive passes count as a pass",
                         failed, passed + failed, runs_to_pass()),
             dev::Verdict::Confirmed, 0});
  throw FlakyAfterAll{};
}

namespace {

// The last lines of two runs say the same, but for numbers and folders.
bool say_the_same(const std::string& one, const std::string& other, const std::string& root) {
  constexpr std::size_t kLines = 100;
  const auto last_lines = [&](const std::string& text) {
    std::deque<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      lines.push_back(line);
      if (lines.size() > kLines) lines.pop_front();
    }
    for (std::string& line : lines) line = without_noise(line, {root});
    return lines;
  };
  return last_lines(one) == last_lines(other);
}

}  // namespace

bool Lab::reproduce_late() {
  late_ = true;
  return late_ = reproduce();
}

bool Lab::reproduce() {
  const std::string where =
      late_ ? fmt::format(" where work of Lathe begins late (LATHE_DELAY={})", kDelay) : "";
  Timer timer;
  const Probe as_it_is{"the unchanged command", "", {}, {}, {}};
  int runs = 0, failures = 0;
  std::map<std::string, int> kinds;
  std::vector<Outcome> failed;
  double longest = 0;
  // A killed investigation begins again with what it knew.
  if (const auto before = case_.store().recall(case_.id(), "reproduced " + as_run())) {
    const Json json = Json::parse(*before);
    const Judged j = read(json.at("failing").get<std::string>());
    failing_ = j.outcome;
    failure_ = failure_of(failing_);
    runs = j.runs;
    failures = j.failures;
    longest = json.at("longest");
    lean_ = json.value("lean", false);
  } else {
    const double begin = case_.seconds_left();
    const auto count_run = [&](const Outcome& o) {
      ++runs;
      longest = std::max(longest, o.seconds);
      if (o.passed()) return;
      ++failures;
      ++kinds[failure_of(o).likeness];
      failed.push_back(o);
    };
    // Copies of a large environment take longer than most commands: are they needed?
    if (repository_.ignored_bytes() > kManyBytes) {
      Probe without = as_it_is;
      without.label = "the command without ignored files";
      without.without_ignored = repository_.ignored();
      const std::vector<Outcome> both = run({as_it_is, without}, {0, 1});
      count_run(both[0]);
      lean_ = !both[0].passed() && failure_of(both[0]).signature == failure_of(both[1]).signature &&
              say_the_same(both[0].output, both[1].output, repository_.root());
      if (lean_) count_run(both[1]);
    }
    const auto more = [&](int until) {
      while (runs < until && (runs < kFirstRuns || case_.seconds_left() > begin * 0.6)) {
        const int count = std::min(until - runs, case_.jobs());
        std::vector<Probe> probes(static_cast<std::size_t>(count), as_it_is);
        std::vector<std::size_t> which(probes.size());
        for (std::size_t i = 0; i < which.size(); ++i) which[i] = i;
        for (const Outcome& o : run(probes, which)) count_run(o);
        if (longest > kQuick && runs >= until / 2) break;
      }
    };
    more(kFirstRuns);
    if (failures == 0) more(kRunsUntilGivenUp);
    if (failures == runs && longest < kQuick) more(2 * kFirstRuns);
    if (failures > 0 && failures < runs) more(std::max(runs, kRunsWhenMixed));
    if (failures > 0) {  // the usual one of several
      const auto usual =
          std::max_element(kinds.begin(), kinds.end(), [](auto& a, auto& b) { return a.second < b.second; });
      failing_ = *std::find_if(failed.begin(), failed.end(),
                               [&](const Outcome& o) { return failure_of(o).likeness == usual->first; });
      failure_ = failure_of(failing_);
      Judged j{Result::Fails, runs, failures, failing_};
      case_.store().remember(case_.id(), "reproduced " + as_run(),
                             Json{{"failing", written(j)}, {"longest", longest}, {"lean", lean_}}.dump());
    }
  }
  if (case_.input().scenario_seconds <= 0 && failing_.ending != Ending::TimedOut)
    limit_ = std::min(std::max(5.0, 6 * longest), std::max(limit_, 5.0));
  const std::string experiment = joined_words(command());
  if (failures == 0) {
    case_.add({"the command fails in a copy of its tree" + where, experiment,
               fmt::format("it passed {} times", runs), dev::Verdict::Refuted, timer.milliseconds()});
    return false;
  }
  rate_ = failures == runs ? 1 : static_cast<double>(failures) / (runs + 1);
  if (const auto known = case_.store().recall(case_.id(), "rate " + as_run()))
    rate_ = std::atof(known->c_str());
  counts_[key(as_it_is, 0)] = {0, failures};
  case_.store().set_failure(case_.id(), failure_.signature, failure_.error);
  case_.add({"the command fails in a copy of its tree" + where, experiment,
             fmt::format("{} of {} runs failed: {}: {}", failures, runs, failing_.words(), failure_.error),
             dev::Verdict::Confirmed, timer.milliseconds()});
  if (flaky())
    case_.add({"the failure is flaky", fmt::format("{} runs of the same tree", runs),
               fmt::format("{} of {} failed; {} consecutive passes count as a pass", failures, runs,
                           runs_to_pass()),
               dev::Verdict::Confirmed, 0});
  return true;
}

int Lab::runs_to_pass() const {
  if (!flaky()) return 1;
  return std::clamp(static_cast<int>(std::ceil(std::log(kAccident) / std::log(1 - rate_))), 2, kMostRuns);
}

// A command that fails early may take much longer where it passes: before the first run that is cut off
// counts, all runs get more time.
bool Lab::take_more_time(const std::vector<Outcome>& outcomes) {
  constexpr double kMore = 4;
  const bool cut_off =
      std::ranges::any_of(outcomes, [](const Outcome& o) { return o.ending == Ending::TimedOut; });
  if (!cut_off || patient_ || case_.input().scenario_seconds > 0 || failing_.ending == Ending::TimedOut)
    return false;
  limit_ *= kMore;
  return patient_ = true;
}

Judged Lab::judge(const Probe& probe, int at_least) {
  return judge(std::vector<Probe>{probe}, at_least).front();
}

std::vector<Judged> Lab::judge(const std::vector<Probe>& probes, int at_least) {
  const int needed = std::max(at_least, runs_to_pass());
  std::vector<Judged> judged(probes.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (const auto before = case_.store().recall(case_.id(), key(probes[i], needed)))
      judged[i] = read(*before);
    else
      open.push_back(i);
  }
  const auto jobs = static_cast<std::size_t>(case_.jobs());
  while (!open.empty()) {
    // Runs of one probe side by side, where there are fewer probes than jobs.
    std::vector<std::size_t> wave;
    for (bool more = true; more && wave.size() < jobs;) {
      more = false;
      for (const std::size_t i : open) {
        if (wave.size() == jobs || std::count(wave.begin(), wave.end(), i) >= needed - judged[i].runs)
          continue;
        wave.push_back(i);
        more = true;
      }
    }
    const std::vector<Outcome> outcomes = run(probes, wave);
    const bool patient = take_more_time(outcomes);
    for (std::size_t w = 0; w < wave.size(); ++w) {
      Judged& j = judged[wave[w]];
      const Outcome& o = outcomes[w];
      if (patient && o.ending == Ending::TimedOut) continue;                     // once more
      if (std::find(open.begin(), open.end(), wave[w]) == open.end()) continue;  // decided in this wave
      ++j.runs;
      j.outcome = o;
      count(probes[wave[w]], o);
      if (o.passed()) {
        if (j.runs < needed) continue;
        j.result = Result::Passes;
        if (failing_.ending == Ending::TimedOut && case_.input().scenario_seconds <= 0)
          limit_ = std::min(limit_, std::max(1.0, 8 * o.seconds));
      } else {
        ++j.failures;
        j.result = same(o) ? Result::Fails : Result::Differs;
      }
      case_.store().remember(case_.id(), key(probes[wave[w]], needed), written(j));
      std::erase(open, wave[w]);
    }
  }
  return judged;
}

bool Lab::verify(Cause& cause, const Probe& with) {
  constexpr int kTimes = 3;
  Timer timer;
  Probe plain = with;
  plain.label = "with the way out";
  const Judged helped = judge(plain, kTimes);
  const Judged without = judge(Probe{"without the way out", "", {}, {}, {}}, kTimes);
  cause.verified = helped.result == Result::Passes && without.result == Result::Fails;
  case_.add({"way out: " + cause.way_out, "the command with it and without it",
             fmt::format("with it the command {}; without it it {}", helped.words(), without.words()),
             cause.verified ? dev::Verdict::Confirmed : dev::Verdict::Refuted, timer.milliseconds()});
  return cause.verified;
}

Probe Lab::with_remedy(const Cause& cause, bool& possible) {
  Probe probe{"with " + cause.remedy, "", {}, {}, {}};
  possible = true;
  if (cause.remedy == "patch") {
    const auto patched = repository_.patched(repository_.snapshot(), cause.argument, false);
    possible = patched.has_value();
    probe.commit = patched.value_or("");
  } else if (cause.remedy == "unset") {
    std::string rest = cause.argument + " ";
    for (std::size_t end = 0; (end = rest.find(' ')) != std::string::npos; rest.erase(0, end + 1))
      if (end > 0) probe.variables[rest.substr(0, end)] = std::nullopt;
  } else if (cause.remedy == "set") {
    const std::size_t end = cause.argument.find('=');
    possible = end != std::string::npos;
    if (possible) probe.variables[cause.argument.substr(0, end)] = cause.argument.substr(end + 1);
  } else if (cause.remedy == "without") {
    probe.without_ignored.push_back(cause.argument);
  } else {
    possible = false;
  }
  return probe;
}

}  // namespace lathe::investigations
