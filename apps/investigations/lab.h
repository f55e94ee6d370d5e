// Experiments with one failing command: the command in copies of its repository, with other commits, files,
// variables or arguments, as often as it takes to tell passing from failing. Results are remembered, so that
// a resumed investigation repeats none.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/investigations/case.h"
#include "apps/investigations/failure.h"
#include "apps/investigations/git.h"

namespace lathe::investigations {

// What is changed of how the user ran it.
struct Probe {
  std::string label;
  std::string commit;                                           // empty: the user's tree as it is
  std::vector<std::string> command;                             // empty: the user's
  std::map<std::string, std::optional<std::string>> variables;  // without a value: removed
  std::vector<std::string> without_ignored;
};

enum class Result : std::uint8_t {
  Passes,
  Fails,    // as the user's does
  Differs,  // fails in another way, which says nothing of the user's failure
};

struct Judged {
  Result result = Result::Differs;
  int runs = 0, failures = 0;
  Outcome outcome;  // of the run that decided
  std::string words() const;
};

// What was found guilty and what was seen to help.
struct Cause {
  std::string kind, name, summary, way_out;
  // How to try the way out again: "patch" with the text, "unset" or "set" with a variable, "without" with an
  // ignored file. The bank keeps it.
  std::string remedy, argument;
  bool verified = false;
  std::string before, after;  // the guilty lines
};

// A failure that seemed certain is not: what was concluded from single runs has to be asked again.
struct FlakyAfterAll {};

class Lab {
 public:
  explicit Lab(Case& running);

  Case& running() { return case_; }
  Repository& repository() { return repository_; }
  const std::vector<std::string>& command() const { return case_.input().command; }

  // Runs the command until it has failed and it is known how often it does. False where it does not fail.
  bool reproduce();
  // The same where kernels and copies of Lathe begin late: for a command that hardly fails otherwise. It
  // stays so in all later runs.
  bool reproduce_late();
  const Failure& failure() const { return failure_; }
  const Outcome& failing() const { return failing_; }
  Failure failure_of(const Outcome& outcome) const;
  double rate() const { return rate_; }  // share of runs that fail
  bool flaky() const { return rate_ < 1; }
  // It fails in the same way without the files that git ignores: no copies of them are made any more.
  bool lean() const { return lean_; }
  double limit() const { return limit_; }  // seconds of one run
  int runs_to_pass() const;                // so many in a row are no accident

  Judged judge(const Probe& probe, int at_least = 1);
  // Side by side. Whoever asks may be content with the first that passes (or fails): the rest is then
  // Differs.
  std::vector<Judged> judge(const std::vector<Probe>& probes, int at_least = 1);
  bool passes(const Probe& probe) { return judge(probe).result == Result::Passes; }

  // The way out against the user's tree: with it the command passes, without it it fails, several times each.
  bool verify(Cause& cause, const Probe& with);
  Probe with_remedy(const Cause& cause, bool& possible);

  std::vector<Cause> causes;
  std::vector<std::string> smallest_command;  // that still fails; empty while it is the user's
  std::string smallest_input;                 // a file, where one was made smaller

 private:
  Scenario scenario(const Probe& probe, const std::string& worktree) const;
  std::string key(const Probe& probe, int needed) const;
  void count(const Probe& probe, const Outcome& outcome);  // throws FlakyAfterAll
  std::vector<Outcome> run(const std::vector<Probe>& probes, const std::vector<std::size_t>& which);
  bool same(const Outcome& outcome) const;

  Case& case_;
  Repository repository_;
  Failure failure_;
  Outcome failing_;
  std::string worktree(const Probe& probe);
  bool take_more_time(const std::vector<Outcome>& outcomes);
  // Names the tree, and how the command is run in it.
  std::string as_run() const { return repository_.snapshot() + (late_ ? " late" : ""); }

  double rate_ = 1;
  bool lean_ = false;
  double limit_ = 0;                                   // seconds of one run
  bool patient_ = false;                               // that limit was raised
  bool late_ = false;                                  // work of Lathe begins late
  std::map<std::string, std::pair<int, int>> counts_;  // runs that passed and that failed, by probe
};

}  // namespace lathe::investigations
