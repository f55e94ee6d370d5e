#include "lathe/dev/investigate_kernel.h"

#include <filesystem>

#include "base/env.h"
#include "dev/saved_capture.h"
#include "investigate/graph_investigation.h"
#include "investigate/kernel_investigation.h"
#include "investigate/program_investigation.h"
#include "investigate/worker.h"

namespace lathe::dev {

namespace fs = std::filesystem;

Finding investigate_kernel(const std::string& saved_kernel_path, const InvestigationLimits& limits,
                           const OnHypothesis& on_hypothesis) {
  const Scope scope;
  if (is_capture_file(saved_kernel_path)) {
    return investigate_program({investigate::worker_program(), "replay", saved_kernel_path}, limits,
                               on_hypothesis);
  }
  if (investigate::is_graph_file(saved_kernel_path)) {
    const investigate::GraphSubject graph = investigate::read_graph(saved_kernel_path);
    investigate::WorkerLaboratory laboratory(limits.jobs);
    return investigate::investigate(graph, laboratory, limits, on_hypothesis);
  }
  const investigate::Subject subject = investigate::read_subject(saved_kernel_path);
  investigate::WorkerLaboratory laboratory(limits.jobs);
  return investigate::investigate(subject, laboratory, limits, on_hypothesis);
}

Finding investigate_program(const std::vector<std::string>& command, const InvestigationLimits& limits,
                            const OnHypothesis& on_hypothesis) {
  investigate::WorkerLaboratory laboratory(limits.jobs);
  return investigate::investigate_command(command, laboratory, limits, on_hypothesis);
}

std::string inspect_command(const Finding& finding) {
  const bool of_step = finding.kind == "step" || finding.kind == "option";
  if (!of_step || !fs::exists(finding.repro) || investigate::is_graph_file(finding.repro)) return "";
  const std::string step = finding.kind == "option" ? "option_ranges" : finding.cause;
  const Scope scope;
  const std::string device = investigate::read_subject(finding.repro).device;
  return "lathe inspect " + finding.repro + " --step " + step +
         (device == "CPU" ? "" : " --device " + device);
}

TextCheck check_text(const std::string& text, const std::string& folder) {
  const Scope scope;
  // Nothing hides what is wrong, and no search replaces it.
  const FlagScope check(Flag::Check, "off"), beam(Flag::Beam, "0");
  investigate::Outcome outcome{};
  TextCheck out;
  if (investigate::is_graph_text(text)) {
    const investigate::StepsRun run =
        investigate::run_schedule_on_ref(investigate::graph_from_text(text), {});
    outcome = run.outcome, out.text = run.text;
  } else {
    const investigate::DeviceRun run =
        investigate::run_on_device(investigate::subject_from_text(text, folder), {}, 1);
    outcome = run.outcome, out.text = run.text;
  }
  out.failed = investigate::is_failure(outcome);
  out.outcome = investigate::name(outcome);
  return out;
}

int run_saved_capture(const std::string& path) { return replay_main(path); }

int run_investigation_worker() { return investigate::worker_main(); }

}  // namespace lathe::dev
