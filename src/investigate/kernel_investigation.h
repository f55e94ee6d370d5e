// From a kernel that is wrong to what makes it wrong: claims are tested one after the other, each by an
// experiment, until one step, rule, printer or option is left; then the kernel is made smaller as long as it
// fails in the same way, and a way out is tried on the kernel as it came.
#pragma once

#include "investigate/subject.h"
#include "investigate/worker.h"
#include "lathe/dev/investigation.h"

namespace lathe::investigate {

dev::Finding investigate(const Subject& subject, Laboratory& laboratory,
                         const dev::InvestigationLimits& limits, const dev::OnHypothesis& told);

}  // namespace lathe::investigate
