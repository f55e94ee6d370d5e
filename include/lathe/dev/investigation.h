// The result of an investigation: hypotheses, each with the experiment that tested it and a measured verdict,
// and the cause that follows from them. Kernels of Lathe and commands of any repository share this one form,
// so that sessions, records, pages and the MCP server need not know what was investigated. Unstable: for
// tools.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lathe::dev {

enum class Verdict : std::uint8_t { Confirmed, Refuted, Partial, Unknown };

// One claim and what was done to test it.
struct Hypothesis {
  std::string claim;       // "the option UPCAST(0, 4) is needed for the failure"
  std::string experiment;  // what was run, in words or as a command
  std::string evidence;    // what came out, with figures
  Verdict verdict = Verdict::Unknown;
  double milliseconds = 0;
};

struct Finding {
  std::string summary;  // the verdict in a sentence or two
  // The kind of the cause ("rule", "step", "option", "printer", "compiler", "wait", "memory plan", "capture",
  // "commit", "environment", "flaky", ...) and its name; both empty if no cause was verified.
  std::string kind;
  std::string cause;
  std::string way_out;            // what makes the failure go away: a flag, a command, the path of a patch
  bool way_out_verified = false;  // the failure was observed without it and not with it
  std::string repro;  // path of a file or folder that shows the failure again; empty if there is none
  std::string repro_command;
  std::int64_t repro_nodes = 0;
  // For the page, if available: the graph (or the lines of a file) before and after the faulty step, and the
  // errors of the values, one list per row.
  std::string before, after;
  std::vector<std::vector<double>> difference;
  std::vector<Hypothesis> hypotheses;
};

struct InvestigationLimits {
  double seconds = 60;
  double run_seconds = 0;  // of one run of a command, which then hangs; 0 means all that is left
  int jobs = 0;            // experiments at a time; 0 means one per CPU
  std::string
      folder;  // where repros go; empty means the folder of LATHE_SAVE, else one beside the disk cache
};

// Called with each hypothesis once it has a verdict. Returning false ends the investigation with what is
// known so far.
using OnHypothesis = std::function<bool(const Hypothesis&)>;

}  // namespace lathe::dev
