#include "lathe/dev/investigate_kernel.h"

#include "investigate/graph_investigation.h"
#include "investigate/kernel_investigation.h"
#include "investigate/program_investigation.h"
#include "investigate/worker.h"

namespace lathe::dev {

Finding investigate_kernel(const std::string& saved_kernel_path, const InvestigationLimits& limits,
                           const OnHypothesis& on_hypothesis) {
  const Scope scope;
  if (investigate::is_graph_file(saved_kernel_path)) {
    const investigate::GraphSubject graph = investigate::read_graph(saved_kernel_path);
    investigate::WorkerLaboratory laboratory;
    return investigate::investigate(graph, laboratory, limits, on_hypothesis);
  }
  const investigate::Subject subject = investigate::read_subject(saved_kernel_path);
  investigate::WorkerLaboratory laboratory;
  return investigate::investigate(subject, laboratory, limits, on_hypothesis);
}

Finding investigate_program(const std::vector<std::string>& command, const InvestigationLimits& limits,
                            const OnHypothesis& on_hypothesis) {
  investigate::WorkerLaboratory laboratory;
  return investigate::investigate_command(command, laboratory, limits, on_hypothesis);
}

int run_investigation_worker() { return investigate::worker_main(); }

}  // namespace lathe::dev
