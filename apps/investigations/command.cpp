// A command that fails: reproduced first, then asked about, question by question.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/investigations/adviser.h"
#include "apps/investigations/investigators.h"
#include "apps/investigations/questions.h"

namespace lathe::investigations {
namespace {

// The questions still to be asked, in an order that people may change.
class Agenda {
 public:
  Agenda() {
    for (const Question& q : questions()) open_.push_back(&q);
  }

  void steer(Lab& lab) {
    for (const Observation& o : lab.running().new_observations()) {
      const Steering steering = steering_of(o.text, lab);
      for (const std::string& name : steering.last) move(name, false);
      for (auto name = steering.first.rbegin(); name != steering.first.rend(); ++name) move(*name, true);
      for (const Proposal& p : steering.proposals) add(p);
      lab.running().store().set_effect(lab.running().id(), o.number, steering.words());
      lab.running().event("observation", fmt::format("{}: {}: {}", o.who, o.text, steering.words()));
      lab.running().tell(fmt::format("observation: {} ({})", o.text, steering.words()));
    }
  }
  void add(const Proposal& proposal) { proposals_.push_back(proposal); }

  bool next(Lab& lab) {
    if (!proposals_.empty()) {
      const Proposal proposal = proposals_.front();
      proposals_.erase(proposals_.begin());
      for (const ProposalKind& kind : proposal_kinds())
        if (kind.kind == proposal.kind) kind.run(lab, proposal);
      return true;
    }
    if (open_.empty()) return false;
    const Question* question = open_.front();
    open_.erase(open_.begin());
    lab.running().event("question", std::string(question->name));
    question->ask(lab);
    return true;
  }
  // Once there is a cause, only these may still make it smaller.
  void keep(std::initializer_list<std::string_view> names) {
    std::erase_if(open_, [&](const Question* q) {
      return std::find(names.begin(), names.end(), q->name) == names.end();
    });
    proposals_.clear();
  }

 private:
  void move(const std::string& name, bool front) {
    const auto found =
        std::find_if(open_.begin(), open_.end(), [&](const Question* q) { return q->name == name; });
    if (found == open_.end()) return;
    const Question* question = *found;
    open_.erase(found);
    open_.insert(front ? open_.begin() : open_.end(), question);
  }

  std::vector<const Question*> open_;
  std::vector<Proposal> proposals_;
};

// The verified causes first; among those as they were found.
void order(std::vector<Cause>& causes) {
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.verified && !b.verified; });
}

std::string repro_script(Lab& lab) {
  Repository& repository = lab.repository();
  const std::string folder = lab.running().folder();
  const std::vector<std::string>& command =
      lab.smallest_command.empty() ? lab.command() : lab.smallest_command;
  std::string script =
      "#!/bin/sh\n# Shows the failure again, in a copy of the tree that is removed afterwards.\nset -e\n";
  if (repository.head().empty()) {
    script += fmt::format("cd {}\n", joined_words({lab.running().input().directory}));
    script += fmt::format("exec {}\n", joined_words(command));
  } else {
    const std::string root = joined_words({repository.root()});
    script += "tree=$(mktemp -d)\n";
    script += fmt::format("trap 'git -C {} worktree remove --force \"$tree\"' EXIT\n", root);
    script += fmt::format("git -C {} worktree add --quiet --detach \"$tree\" {}\n", root, repository.head());
    if (repository.changed()) {
      std::ofstream(folder + "/changes.patch") << repository.change(repository.head(), repository.snapshot());
      script += fmt::format("git -C \"$tree\" apply --whitespace=nowarn {}\n",
                            joined_words({folder + "/changes.patch"}));
    }
    script += fmt::format("cd \"$tree/{}\"\n", repository.prefix());
    std::vector<std::string> moved;
    for (const std::string& word : command) moved.push_back(repository.moved(word, "."));
    script += joined_words(moved) + "\n";
  }
  const std::string file = folder + "/repro.sh";
  std::ofstream(file) << script;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

Answer conclude(Lab& lab) {
  Answer answer;
  dev::Finding& f = answer.finding;
  Case& running = lab.running();
  f.hypotheses = running.hypotheses();
  f.repro = repro_script(lab);
  f.repro_command = joined_words(lab.smallest_command.empty() ? lab.command() : lab.smallest_command);
  order(lab.causes);
  if (lab.causes.empty()) {
    f.summary =
        fmt::format("The command fails ({}), and no experiment found the cause.", lab.failure().error);
    return answer;
  }
  const Cause& cause = lab.causes.front();
  f.summary = cause.summary;
  for (std::size_t i = 1; i < lab.causes.size(); ++i) f.summary += " " + lab.causes[i].summary;
  if (lab.flaky())
    f.summary += fmt::format(" It is flaky: about {:.0f} % of the runs fail.", lab.rate() * 100);
  f.kind = cause.kind;
  f.cause = cause.name;
  f.way_out = cause.way_out;
  f.way_out_verified = cause.verified;
  f.before = cause.before;
  f.after = cause.after;
  running.store().remember(running.id(), "remedy",
                           nlohmann::json{{"remedy", cause.remedy}, {"argument", cause.argument}}.dump(
                               -1, ' ', false, nlohmann::json::error_handler_t::replace));
  // A cause that nothing was seen to take away is a trace, not a verdict.
  answer.state = cause.verified ? State::Found : State::NotFound;
  if (!cause.verified) f.summary = "Not certain: " + f.summary;
  return answer;
}

}  // namespace

Answer investigate_command(Case& running) {
  Lab lab(running);
  if (!lab.reproduce() && !(uses_lathe(lab) && lab.reproduce_late())) {
    Answer answer;
    answer.finding.summary =
        "The command passes in a copy of the tree, with its uncommitted changes and ignored files.";
    answer.finding.hypotheses = running.hypotheses();
    return answer;
  }
  if (const auto others = running.store().same_failure(lab.failure().signature, running.id());
      !others.empty()) {
    running.event("link", "the same failure as in " + others.front().id);
    running.tell(
        fmt::format("the same failure as in {} ({})", others.front().id, row(others.front().state).name));
  }
  Agenda agenda;
  bool asked_adviser = false;
  bool narrowed = false;
  // One question or proposal; false where nothing is left.
  const auto step = [&] {
    agenda.steer(lab);
    if (!asked_adviser && !running.input().adviser.empty()) {
      asked_adviser = true;
      for (const Proposal& p : advised(lab)) agenda.add(p);
    }
    const bool verified =
        std::any_of(lab.causes.begin(), lab.causes.end(), [](const Cause& c) { return c.verified; });
    if (verified && !narrowed) {
      narrowed = true;
      order(lab.causes);
      if (lab.causes.front().kind.rfind("missing", 0) == 0)
        agenda.keep({"history", "tests"});  // since when is worth knowing
      else
        agenda.keep({"tests"});
    }
    return agenda.next(lab);
  };
  try {
    while (true) {
      try {
        if (!step()) break;
      } catch (const FlakyAfterAll&) {  // can be thrown once: from then on it is known to be flaky
        lab.causes.clear();
        agenda = Agenda();
        narrowed = asked_adviser = false;
        running.forget_observations();
      }
    }
    ask_other_tests(lab);
  } catch (const EndedEarly& end) {
    if (end.why != Early::OutOfBudget) throw;
    running.event("budget", "used up");
    Answer answer = conclude(lab);
    answer.finding.summary += " The budget was used up before all questions were tested.";
    return answer;
  }
  return conclude(lab);
}

}  // namespace lathe::investigations
