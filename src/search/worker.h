// What lathe-worker does: it compiles, runs and times candidates of a search, and may crash or hang while it
// does; the parent only loses the candidate. A question and an answer are a line each; numbers of candidates
// name files of the job's folder.
//   open FOLDER               -> ok VERSION              the job, and the code version of this worker
//   compile N OPTIONS         -> ok INSTRUCTIONS         or: refused REASON
//   run N                     -> ok NANOSECONDS          once, from the job's inputs; results are in the out
//   files time N SECONDS GIVE_UP    -> ok NANOSECONDS RUNS     the best; ends early where the first are
//   beyond GIVE_UP duel N M SECONDS          -> ok NANOSECONDS NANOSECONDS ROUNDS   the best of each, in turn
#pragma once

#include <functional>
#include <string>

namespace lathe::search {

struct WorkerHooks {
  // Called before a candidate runs, with its options: where tests plant a crash or a hang.
  std::function<void(const std::string& options)> before_run;
  // Called with each result of a run, before it is written: where tests plant a wrong one.
  std::function<void(const std::string& options, std::string& bytes)> after_run;
};

// Answers until standard input ends. Returns the exit status.
int worker_main(const WorkerHooks& hooks = {});

// A checksum of everything machine code depends on, made by the build.
std::string code_version();

}  // namespace lathe::search
