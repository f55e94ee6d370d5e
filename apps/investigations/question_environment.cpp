// Does it fail because of where and when it runs: variables of the environment, files that are no part of the
// repository, the order in which threads or hashes come?
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/investigations/minimize.h"
#include "apps/investigations/questions.h"

namespace lathe::investigations {
namespace {

// Without these hardly any program is found or starts; the last one changes when work is done, and a program
// that it makes fail is wrong.
constexpr std::array<std::string_view, 10> kNeeded{"PATH", "HOME",   "USER", "LOGNAME", "SHELL",
                                                   "TERM", "TMPDIR", "PWD",  "SHLVL",   "LATHE_DELAY"};

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

// A value that may be secret, or is long, is not repeated in records that are shown.
std::string shown(const std::string& name, const std::string& value) {
  for (const char* word : {"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"})
    if (name.find(word) != std::string::npos) return name;
  return name + "=" + (value.size() > 100 ? value.substr(0, 100) + "..." : value);
}

}  // namespace

void ask_environment(Lab& lab) {
  Timer timer;
  std::vector<std::string> names;
  for (const auto& [name, value] : lab.running().environment())
    if (std::find(kNeeded.begin(), kNeeded.end(), name) == kNeeded.end()) names.push_back(name);
  if (names.empty()) return;
  const auto without = [&](const std::vector<std::string>& some) {
    Probe probe{fmt::format("without {} variables", some.size()), "", {}, {}, {}};
    for (const std::string& name : some) probe.variables[name] = std::nullopt;
    return probe;
  };
  const Judged bare = lab.judge(without(names));
  const std::string experiment = fmt::format("the command without {} environment variables", names.size());
  if (bare.result != Result::Passes) {
    lab.running().add({"an environment variable is the cause", experiment, "without them it " + bare.words(),
                       bare.result == Result::Fails ? dev::Verdict::Refuted : dev::Verdict::Unknown,
                       timer.milliseconds()});
    return;
  }
  const auto chosen = [&](const Part& part) {
    std::vector<std::string> some;
    for (const std::size_t i : part) some.push_back(names[i]);
    return some;
  };
  const Part part = smallest_part(names.size(), [&](const std::vector<Part>& parts) {
    std::vector<Probe> probes;
    for (const Part& p : parts) probes.push_back(without(chosen(p)));
    std::vector<bool> holds;
    for (const Judged& j : lab.judge(probes)) holds.push_back(j.result == Result::Passes);
    return holds;
  });
  const std::vector<std::string> guilty = chosen(part);
  Cause cause;
  cause.kind = "environment";
  cause.name = listed(guilty);
  cause.remedy = "unset";
  cause.argument = cause.name;
  std::string values, flags;
  for (const std::string& name : guilty) {
    values += (values.empty() ? "" : ", ") + shown(name, lab.running().environment().at(name));
    flags += " -u " + name;
  }
  cause.summary = fmt::format("It fails because of the environment: {}.", values);
  cause.way_out = fmt::format("env{} {}", flags, joined_words(lab.command()));
  lab.running().add({"an environment variable is the cause", experiment,
                     "without them it passes; what matters is " + values, dev::Verdict::Confirmed,
                     timer.milliseconds()});
  lab.verify(cause, without(guilty));
  lab.causes.push_back(cause);
}

void ask_ignored(Lab& lab) {
  const std::vector<std::string>& names = lab.repository().ignored();
  if (names.empty()) return;
  Timer timer;
  if (lab.lean()) {
    lab.running().add({"a file that git ignores is the cause", "the command without them",
                       "it fails in the same way; ignored files are not copied from now on",
                       dev::Verdict::Refuted, timer.milliseconds()});
    return;
  }
  const auto without = [](std::vector<std::string> some) {
    return Probe{fmt::format("without {} ignored files", some.size()), "", {}, {}, std::move(some)};
  };
  const std::string experiment =
      fmt::format("the command without {} files and folders that git ignores", names.size());
  const Judged bare = lab.judge(without(names));
  if (bare.result != Result::Passes) {
    lab.running().add({"a file that git ignores is the cause", experiment, "without them it " + bare.words(),
                       bare.result == Result::Fails ? dev::Verdict::Refuted : dev::Verdict::Unknown,
                       timer.milliseconds()});
    return;
  }
  const auto chosen = [&](const Part& part) {
    std::vector<std::string> some;
    for (const std::size_t i : part) some.push_back(names[i]);
    return some;
  };
  const std::vector<std::string> guilty =
      chosen(smallest_part(names.size(), [&](const std::vector<Part>& parts) {
        std::vector<Probe> probes;
        for (const Part& p : parts) probes.push_back(without(chosen(p)));
        std::vector<bool> holds;
        for (const Judged& j : lab.judge(probes)) holds.push_back(j.result == Result::Passes);
        return holds;
      }));
  Cause cause;
  cause.kind = "environment";
  cause.name = listed(guilty);
  cause.remedy = "without";
  cause.argument = guilty.size() == 1 ? guilty.front() : "";
  cause.summary = fmt::format("It fails because of a file that git ignores: {}.", cause.name);
  cause.way_out = "move it away: " + cause.name;
  lab.running().add({"a file that git ignores is the cause", experiment,
                     "without them it passes; what matters is " + cause.name, dev::Verdict::Confirmed,
                     timer.milliseconds()});
  lab.verify(cause, without(guilty));
  lab.causes.push_back(cause);
}

// What a flaky failure depends on, where fixing it makes the failure certain or makes it vanish.
void ask_flaky(Lab& lab) {
  if (!lab.flaky()) return;
  struct Fixed {
    std::string_view what;
    std::vector<Probe> probes;
  };
  std::vector<Fixed> rows;
  const bool python = lab.failing().output.find(".py") != std::string::npos;
  if (python) {
    Fixed seeds{"the order of hashes (PYTHONHASHSEED)", {}};
    for (int seed = 0; seed < 6; ++seed)
      seeds.probes.push_back(
          {fmt::format("PYTHONHASHSEED={}", seed), "", {}, {{"PYTHONHASHSEED", std::to_string(seed)}}, {}});
    rows.push_back(std::move(seeds));
  }
  std::vector<std::string> one_cpu{"taskset", "-c", "0"};
  one_cpu.insert(one_cpu.end(), lab.command().begin(), lab.command().end());
  rows.push_back({"parallel threads or processes", {{"on one CPU", "", one_cpu, {}, {}}}});
  for (const Fixed& row : rows) {
    Timer timer;
    int passing = 0, failing = 0;
    std::string evidence;
    for (const Judged& j : lab.judge(row.probes)) {
      (j.result == Result::Passes ? passing : failing) += 1;
    }
    for (const Probe& p : row.probes) evidence += (evidence.empty() ? "" : ", ") + p.label;
    // For seeds some of which always pass and some fail; for one CPU, that it always passes.
    const bool decides = row.probes.size() > 1 ? passing > 0 && failing > 0 : passing > 0;
    lab.running().add({fmt::format("it depends on {}", row.what), evidence,
                       fmt::format("{} of {} settings always pass", passing, row.probes.size()),
                       decides ? dev::Verdict::Partial : dev::Verdict::Refuted, timer.milliseconds()});
  }
}

}  // namespace lathe::investigations
