// What is wrong with a kernel of Lathe, found by experiments. Unstable: for tools.
#pragma once

#include <string>

#include "lathe/dev/investigation.h"

namespace lathe::dev {

// A kernel saved by LATHE_SAVE, by the first-use check, or by an investigation before. Throws UserError where
// the file is no such kernel.
Finding investigate_kernel(const std::string& saved_kernel_path, const InvestigationLimits& limits = {},
                           const OnHypothesis& on_hypothesis = {});

// What `lathe-worker investigate` does.
int run_investigation_worker();

}  // namespace lathe::dev
