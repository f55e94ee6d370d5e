#include "lathe/dev/investigate_kernel.h"

#include "investigate/kernel_investigation.h"
#include "investigate/worker.h"

namespace lathe::dev {

Finding investigate_kernel(const std::string& saved_kernel_path, const InvestigationLimits& limits,
                           const OnHypothesis& on_hypothesis) {
  const Scope scope;
  const investigate::Subject subject = investigate::read_subject(saved_kernel_path);
  investigate::WorkerLaboratory laboratory;
  return investigate::investigate(subject, laboratory, limits, on_hypothesis);
}

int run_investigation_worker() { return investigate::worker_main(); }

}  // namespace lathe::dev
