#include "apps/investigations/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lathe::investigations {

// Cheap questions first; the search of history asks the most of the machine.
const std::vector<Question>& questions() {
  // clang-format off
  static const std::vector<Question> rows{
      {"known",       "seen before again recurring known bank",                                                 ask_known},
      {"lathe",       "kernel kernels lathe tensor option options rule compiler wrong nan inf gradient numbers",        ask_lathe},
      {"environment", "environment variable variables env locale timezone setting settings",                    ask_environment},
      {"ignored",     "ignored cache stale artifact artifacts build leftover config virtualenv venv",           ask_ignored},
      {"missing",     "missing import undefined name typo misspelt renamed file header include module deleted", ask_missing},
      {"uncommitted", "uncommitted dirty edit edits edited local working change changes",                       ask_uncommitted},
      {"history",     "commit commits regression bisect history since worked yesterday release merge version",  ask_history},
      {"flaky",       "flaky random race races timing order sometimes intermittent thread threads seed wait",   ask_flaky},
      {"tests",       "test tests case cases suite",                                                            ask_tests},
      {"input",       "input inputs data line lines row rows shape shapes",                                     ask_input},
  };
  // clang-format on
  return rows;
}

namespace {

constexpr std::size_t kMostHints = 3, kMostKnown = 3;

// What others wrote of an error of the same wording is shown, and nothing follows from it.
void show_hints(Lab& lab) {
  const std::string error = without_noise(lab.failure().error, {lab.repository().root()});
  std::size_t shown = 0;
  for (const Hint& hint : lab.running().store().hints()) {
    const std::string theirs = without_noise(hint.error);
    if (theirs.size() < 8 ||
        (error.find(theirs) == std::string::npos && theirs.find(error) == std::string::npos))
      continue;
    if (shown++ == kMostHints) return;
    lab.running().add({fmt::format("hint from {}: {}", hint.source, hint.title), "none: it is prose",
                       "an untested record of the error " + hint.error, dev::Verdict::Unknown, 0});
  }
}

}  // namespace

void ask_known(Lab& lab) {
  Case& running = lab.running();
  show_hints(lab);
  std::size_t tried = 0;
  for (const Session& before : running.store().known(lab.failure().signature, running.id())) {
    const auto stored = running.store().recall(before.id, "remedy");
    if (!stored) continue;
    const nlohmann::json json = nlohmann::json::parse(*stored, nullptr, false);
    if (!json.is_object()) continue;
    if (tried++ == kMostKnown) break;
    Cause cause;
    cause.kind = before.finding.kind;
    cause.name = before.finding.cause;
    cause.summary = fmt::format("Seen before, in {}: {}", before.id, before.finding.summary);
    cause.way_out = before.finding.way_out;
    cause.remedy = json.value("remedy", "");
    cause.argument = json.value("argument", "");
    cause.before = before.finding.before;
    cause.after = before.finding.after;
    Timer timer;
    bool possible = false;
    const Probe probe = lab.with_remedy(cause, possible);
    const std::string claim = fmt::format("the cause is that of {}: {}", before.id, before.finding.cause);
    if (!possible) {
      running.add({claim, "its way out", "it does not fit the present tree", dev::Verdict::Refuted,
                   timer.milliseconds()});
      continue;
    }
    const Judged judged = lab.judge(probe);
    const bool same = judged.result == Result::Passes;
    running.add({claim, "its way out: " + cause.way_out, "with it the command " + judged.words(),
                 same ? dev::Verdict::Confirmed : dev::Verdict::Refuted, timer.milliseconds()});
    if (!same) continue;
    if (cause.remedy == "patch") {
      const std::string file = running.folder() + "/way-out.patch";
      std::ofstream(file) << cause.argument;
      cause.way_out = "git apply " + file;
    }
    lab.verify(cause, probe);
    lab.causes.push_back(cause);
    return;
  }
}

namespace {

void try_remedy(Lab& lab, const Proposal& proposal, const std::string& kind, const std::string& summary,
                const std::string& way_out) {
  Cause cause;
  cause.kind = kind;
  cause.name = proposal.argument;
  cause.summary = summary;
  cause.way_out = way_out;
  cause.remedy = proposal.kind;
  cause.argument = proposal.argument;
  Timer timer;
  bool possible = false;
  const Probe probe = lab.with_remedy(cause, possible);
  if (!possible) {
    lab.running().add({proposal.from + ": " + summary, way_out, "it cannot be tried here",
                       dev::Verdict::Unknown, timer.milliseconds()});
    return;
  }
  const Judged judged = lab.judge(probe);
  const bool helps = judged.result == Result::Passes;
  lab.running().add({proposal.from + ": " + summary, way_out, "with it the command " + judged.words(),
                     helps ? dev::Verdict::Confirmed : dev::Verdict::Refuted, timer.milliseconds()});
  if (!helps) return;
  lab.verify(cause, probe);
  lab.causes.push_back(cause);
}

void propose_unset(Lab& lab, const Proposal& p) {
  try_remedy(lab, p, "environment", fmt::format("the variable {} is the cause", p.argument),
             fmt::format("env -u {} {}", p.argument, joined_words(lab.command())));
}
void propose_set(Lab& lab, const Proposal& p) {
  try_remedy(lab, p, "environment", fmt::format("it needs {}", p.argument),
             fmt::format("env {} {}", p.argument, joined_words(lab.command())));
}
void propose_without(Lab& lab, const Proposal& p) {
  try_remedy(lab, p, "environment", fmt::format("the ignored file {} is the cause", p.argument),
             "move it away: " + p.argument);
}
void propose_revert(Lab& lab, const Proposal& p) {
  Repository& repository = lab.repository();
  Timer timer;
  const auto id = repository.resolve(p.argument);
  const std::string claim = fmt::format("{}: commit {} is the cause", p.from, p.argument);
  if (!id || repository.commit(*id).parents.empty()) {
    lab.running().add({claim, "git rev-parse", "there is no such commit, or it has no parent",
                       dev::Verdict::Unknown, timer.milliseconds()});
    return;
  }
  const Commit commit = repository.commit(*id);
  Cause cause;
  cause.kind = "commit";
  cause.name = commit.label();
  cause.summary = fmt::format("It fails because of commit {}.", commit.label());
  const bool found = blame_change(lab, commit.parents[0], commit.id, cause);
  lab.running().add({claim, "with its change reverted",
                     found ? "without it the command passes"
                           : "without it the command still fails, or it cannot be reverted",
                     found ? dev::Verdict::Confirmed : dev::Verdict::Refuted, timer.milliseconds()});
  if (found) lab.causes.push_back(cause);
}
void propose_path(Lab& lab, const Proposal& p) { search_history(lab, p.argument); }
void propose_ask(Lab& lab, const Proposal& p) {
  for (const Question& q : questions())
    if (q.name == p.argument) q.ask(lab);
}

std::vector<std::string> plain_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    while (!word.empty() && std::string_view("\"'`,.;:()[]!?").find(word.back()) != std::string_view::npos)
      word.pop_back();
    while (!word.empty() && std::string_view("\"'`([").find(word.front()) != std::string_view::npos)
      word.erase(0, 1);
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool denies(const std::string& clause) {
  const std::string text = " " + lower(clause) + " ";
  for (const char* word : {" red herring", " not ", " isn't ", " aren't ", " irrelevant", " ruled out",
                           " unrelated", " no ", " never "})
    if (text.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace

const std::vector<ProposalKind>& proposal_kinds() {
  static const std::vector<ProposalKind> rows{
      {"unset", "the name of an environment variable", propose_unset},
      {"set", "NAME=VALUE, an environment variable", propose_set},
      {"without", "a file or folder that git ignores", propose_without},
      {"revert", "the id of a commit", propose_revert},
      {"path", "a file whose history to search first", propose_path},
      {"ask", "known, environment, ignored, missing, uncommitted, history, flaky, tests or input",
       propose_ask},
  };
  return rows;
}

std::string Steering::words() const {
  std::string text;
  const auto add = [&](const std::string& what, const std::string& which) {
    text += (text.empty() ? "" : "; ") + what + " " + which;
  };
  for (const Proposal& p : proposals) add("tries", p.kind + " " + p.argument);
  for (const std::string& q : first) add("asks first:", q);
  for (const std::string& q : last) add("asks last:", q);
  return text.empty() ? "recorded; no experiment here corresponds to it" : text;
}

Steering steering_of(const std::string& observation, Lab& lab) {
  Steering steering;
  Repository& repository = lab.repository();
  const Environment& environment = lab.running().environment();
  // Clause by clause: what is denied in one may be said of another.
  std::string clause;
  const auto take = [&] {
    const bool no = denies(clause);
    for (const std::string& word : plain_words(clause)) {
      for (const Question& q : questions()) {
        const std::string padded = " " + std::string(q.words) + " ";
        if (padded.find(" " + lower(word) + " ") == std::string::npos) continue;
        std::vector<std::string>& list = no ? steering.last : steering.first;
        if (std::find(list.begin(), list.end(), q.name) == list.end()) list.emplace_back(q.name);
      }
      if (no) continue;
      const std::string who = "observation";
      const std::size_t equals = word.find('=');
      const bool shouted =
          word.size() > 2 &&
          word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
      if (equals != std::string::npos && equals > 0 &&
          word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == equals)
        steering.proposals.push_back({"set", word, who});
      else if (environment.contains(word) && shouted)
        steering.proposals.push_back({"unset", word, who});
      else if (word.size() >= 7 && word.find_first_not_of("0123456789abcdef") == std::string::npos &&
               repository.resolve(word))
        steering.proposals.push_back({"revert", word, who});
      else if (std::find(repository.ignored().begin(), repository.ignored().end(), word) !=
               repository.ignored().end())
        steering.proposals.push_back({"without", word, who});
      else if (word.find_first_of("./") != std::string::npos &&
               repository.file(repository.snapshot(), word.substr(0, word.find(':'))))
        steering.proposals.push_back({"path", word.substr(0, word.find(':')), who});
    }
    clause.clear();
  };
  for (std::size_t i = 0; i < observation.size(); ++i) {
    const char c = observation[i];
    const bool stop = c == ',' || c == ';' || c == '\n' ||
                      (c == '.' && (i + 1 == observation.size() || observation[i + 1] == ' '));
    if (stop)
      take();
    else
      clause += c;
  }
  take();
  std::erase_if(steering.last, [&](const std::string& q) {
    return std::find(steering.first.begin(), steering.first.end(), q) != steering.first.end();
  });
  return steering;
}

}  // namespace lathe::investigations
