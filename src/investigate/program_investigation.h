// Investigates a command that uses Lathe and fails. The cause may be a kernel, the scheduling of a graph, the
// memory plan or a missing wait. Each is tested by running the command again with that one thing made
// harmless; a faulty kernel or graph is then investigated separately.
#pragma once

#include <string>
#include <vector>

#include "investigate/worker.h"
#include "lathe/dev/investigation.h"

namespace lathe::investigate {

// The command fails where it does not end with status 0 in time.
dev::Finding investigate_command(const std::vector<std::string>& command, Laboratory& laboratory,
                                 const dev::InvestigationLimits& limits, const dev::OnHypothesis& told);

}  // namespace lathe::investigate
