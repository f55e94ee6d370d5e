// The worker processes of a search, as seen by the parent: all of them compile a batch in parallel, then one
// runs kernels while the others are idle. A worker that crashes or stops answering is replaced.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "search/limits.h"

namespace lathe::search {

enum class Fate : std::uint8_t { Ok, Refused, Crashed, Hung, Wrong };
std::string_view name(Fate fate);

// What became of a question.
struct Report {
  Fate fate = Fate::Ok;
  std::vector<double> numbers;  // of the answer
  std::string text;             // why not
  bool ok() const { return fate == Fate::Ok; }
};

class Workers {
 public:
  // Throws UserError where there is no lathe-worker, or it is of another build.
  Workers(const Limits& limits, std::string folder);

  struct Candidate {
    int number = 0;
    std::string options;
  };
  std::vector<Report> compile(const std::vector<Candidate>& batch);
  // A question to the worker that runs candidates: "run 3". More seconds are added to the watchdog's.
  Report ask(const std::string& question, double more_seconds = 0);
  // The watchdog's from now on, where that is less than the limit.
  void expect_runs_within(double seconds) { run_seconds_ = std::min(seconds, limits_.candidate_seconds); }

 private:
  void start(std::size_t which);
  Report ask(std::size_t which, const std::string& question, double seconds);

  const Limits& limits_;
  std::string folder_;
  std::vector<std::string> command_;
  double run_seconds_;
  std::vector<std::unique_ptr<ChildProcess>> children_;  // the first one runs candidates
};

}  // namespace lathe::search
