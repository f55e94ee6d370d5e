// What is wrong with a kernel of Lathe, found by experiments. Unstable: for tools.
#pragma once

#include <string>
#include <vector>

#include "lathe/dev/investigation.h"

namespace lathe::dev {

// A kernel saved by LATHE_SAVE, by the first-use check, or by an investigation before; or a graph saved by
// LATHE_SAVE with LATHE_VERIFY (graph_*.txt), of which the scheduling is looked into. Throws UserError where
// the file is neither.
Finding investigate_kernel(const std::string& saved_kernel_path, const InvestigationLimits& limits = {},
                           const OnHypothesis& on_hypothesis = {});

// A command that uses Lathe and fails: does not end with status 0 in time. Every kernel it launches is
// compared with REF; the first that is wrong, or a graph that is scheduled wrongly, is then looked into by
// itself, else the memory plan and waits.
Finding investigate_program(const std::vector<std::string>& command, const InvestigationLimits& limits = {},
                            const OnHypothesis& on_hypothesis = {});

// What `lathe-worker investigate` does.
int run_investigation_worker();

}  // namespace lathe::dev
