// Finds by experiments what is wrong with a kernel, a graph or a program that uses Lathe. Unstable: for
// tools.
#pragma once

#include <string>
#include <vector>

#include "lathe/dev/investigation.h"

namespace lathe::dev {

// Investigates a kernel saved by LATHE_SAVE, by the first-use check or by an earlier investigation, the
// scheduling of a graph saved by LATHE_SAVE with LATHE_VERIFY (graph_*.txt), or a captured program
// (Jit::save), whose replays are compared with REF. Throws UserError if the file is none of these.
Finding investigate_kernel(const std::string& saved_kernel_path, const InvestigationLimits& limits = {},
                           const OnHypothesis& on_hypothesis = {});

// Investigates a command that uses Lathe and fails, that is, does not exit with status 0 in time. Every
// kernel it launches is compared with REF. The first wrong kernel or wrongly scheduled graph is then
// investigated separately; if there is none, the memory plan and the waits are.
Finding investigate_program(const std::vector<std::string>& command, const InvestigationLimits& limits = {},
                            const OnHypothesis& on_hypothesis = {});

// The command that shows what the guilty step of a kernel does to the repro; empty if no step is guilty.
std::string inspect_command(const Finding& finding);

// Runs the kernel, or schedules the graph, of such a text once in this process and compares with REF: what a
// repro does. The text may name a file of inputs, which is in `folder`.
struct TextCheck {
  bool failed = false;
  std::string outcome;  // "right", "wrong", "refused", "unknown"
  std::string text;
};
TextCheck check_text(const std::string& text, const std::string& folder = ".");

// The main function of `lathe-worker investigate`.
int run_investigation_worker();
// The main function of `lathe-worker replay FILE`, for a captured program: 0 if its replays agree with REF.
int run_saved_capture(const std::string& path);

}  // namespace lathe::dev
