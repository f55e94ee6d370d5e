// From a graph that is scheduled wrongly to the step and the rule that does it.
#pragma once

#include "investigate/graph_subject.h"
#include "investigate/worker.h"
#include "lathe/dev/investigation.h"

namespace lathe::investigate {

dev::Finding investigate(const GraphSubject& subject, Laboratory& laboratory,
                         const dev::InvestigationLimits& limits, const dev::OnHypothesis& told);

}  // namespace lathe::investigate
