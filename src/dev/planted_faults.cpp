#include "lathe/dev/planted_faults.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "base/planted.h"
#include "dev/fault_programs.h"
#include "investigate/kernel_investigation.h"
#include "ir/build.h"
#include "ir/text.h"
#include "runtime/devices.h"
#include "search/limits.h"
#include "search/space.h"

namespace lathe::dev {
namespace {

namespace fs = std::filesystem;

// Lists of options beside the heuristic's, for each kernel.
constexpr std::size_t kMoreLists = 6;

#if LATHE_FAULTS
std::string_view name(FaultClass where) {
  switch (where) {
    case FaultClass::RuleConstant: return "rule constant";
    case FaultClass::RuleGuard: return "rule guard";
    case FaultClass::StepOperand: return "step operand";
    case FaultClass::StepLoop: return "step loop";
    case FaultClass::StepGate: return "step gate";
    case FaultClass::StepIndex: return "step index";
    case FaultClass::Site: return "code";
  }
  return "";
}
#endif

// One list of each kind of step away from the kernel's own and from none.
std::vector<std::vector<Opt>> more_lists(Node kernel, const std::vector<Opt>& own, const Target& target) {
  std::vector<std::vector<Opt>> out;
  if (!own.empty()) out.emplace_back();
  const search::Limits limits;
  for (const std::vector<Opt>& from : {std::vector<Opt>(), own})
    for (const auto& kind : search::neighbours(kernel, from, target, limits)) {
      if (kind.empty()) continue;
      const std::vector<Opt>& list = kind[kind.size() / 2];
      if (list != own && std::ranges::find(out, list) == out.end()) out.push_back(list);
    }
  // Some of each, evenly.
  while (out.size() > kMoreLists) {
    std::vector<std::vector<Opt>> fewer;
    for (std::size_t i = 0; i < kMoreLists; ++i) fewer.push_back(out[i * out.size() / kMoreLists]);
    out = std::move(fewer);
  }
  return out;
}

bool names(const std::string& list, const std::string& word) {
  return ("|" + list + "|").find("|" + word + "|") != std::string::npos;
}

bool is_localised(const PlantedFault& fault, const Finding& found) {
  if (!names(fault.kind, found.kind)) return false;
  return found.kind == "option" || names(fault.cause, found.cause);
}

}  // namespace

bool can_plant_faults() { return kCanPlant; }

std::vector<PlantedFault> planted_faults() {
  std::vector<PlantedFault> out;
#if LATHE_FAULTS
  for (const FaultRow& row : fault_table())
    out.push_back({std::string(row.name), std::string(name(row.where)), std::string(row.kind),
                   std::string(row.cause), std::string(row.breaks)});
#endif
  return out;
}

std::vector<std::string> write_fault_subjects(const std::string& folder) {
#if LATHE_FAULTS
  if (planted_fault() != nullptr)
    throw UserError("faults", "LATHE_FAULT is set: the kernels to try faults on would have it")
        .help("unset it");
#endif
  const std::string saved = folder + "/saved";
  fs::create_directories(saved);
  {
    const FlagScope save(Flag::Save, saved), cache(Flag::Cache, "off"), check(Flag::Check, "off");
    run_fault_programs();
  }
  std::vector<std::string> files, out;
  for (const auto& entry : fs::directory_iterator(saved)) files.push_back(entry.path().string());
  std::ranges::sort(files);
  std::vector<investigate::Subject> subjects;
  for (const std::string& file : files) subjects.push_back(investigate::read_subject(file));
  const Scope scope;
  for (const std::string& text : fault_kernels()) {
    investigate::Subject subject;
    subject.name = fmt::format("written_{}", subjects.size());
    subject.kernel = parse_graph(text);
    subjects.push_back(std::move(subject));
  }
  std::ranges::stable_sort(subjects, {}, [](const investigate::Subject& s) { return investigate::node_count(s.kernel); });
  const auto add = [&](const investigate::Subject& subject) {
    out.push_back(fmt::format("{}/{:03}_{}.txt", folder, out.size(), subject.name));
    write_file_atomic(out.back(), to_text(subject), Sync::No);
  };
  for (const investigate::Subject& subject : subjects) add(subject);
  const Target& target = open_device("CPU").compiler->target();
  for (const investigate::Subject& subject : subjects)
    for (const std::vector<Opt>& list : more_lists(subject.kernel, subject.options, target)) {
      investigate::Subject other = subject;
      other.options = list;
      other.options_from = "user";
      add(other);
    }
  // Threads of a group, which no device of this machine may have: on REF.
  const Target gpu = named_target("sm_90a");
  for (const investigate::Subject& subject : subjects)
    for (const std::vector<Opt>& list : more_lists(subject.kernel, {}, gpu)) {
      const bool grouped = std::ranges::any_of(list, [](const Opt& o) {
        return o.op == OptOp::GROUP || o.op == OptOp::GROUPTOP || o.op == OptOp::LOCAL;
      });
      if (!grouped) continue;
      investigate::Subject other = subject;
      other.device = "NULL:sm_90a";
      other.options = list;
      other.options_from = "user";
      add(other);
    }
  return out;
}

FaultTrial try_fault(const PlantedFault& fault, const std::vector<std::string>& subjects,
                     const InvestigationLimits& limits) {
  using Clock = std::chrono::steady_clock;
  FaultTrial trial;
  trial.fault = fault;
  setenv("LATHE_FAULT", fault.name.c_str(), 1);  // of workers that are started from now on
  const Scope scope;
  investigate::WorkerLaboratory laboratory;
  std::string refused;
  const auto read = [&](const std::string& path) {
    investigate::Subject subject = investigate::read_subject(path);
    if (fault.kind == "printer" && fault.cause == "c") subject.printer = "c";
    return subject;
  };
  for (const std::string& path : subjects) {
    const investigate::DeviceRun run = laboratory.device(read(path), {}, 1);
    if (run.outcome == investigate::Outcome::Refused && refused.empty()) refused = path;
    if (!investigate::is_failure(run.outcome) || run.outcome == investigate::Outcome::Refused) continue;
    trial.subject = path;
    trial.wrong_result = true;
    break;
  }
  if (trial.subject.empty()) trial.subject = refused;
  if (!trial.subject.empty()) {
    const Clock::time_point begin = Clock::now();
    trial.finding = investigate::investigate(read(trial.subject), laboratory, limits, {});
    trial.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    trial.localised = is_localised(fault, trial.finding);
  }
  unsetenv("LATHE_FAULT");
  return trial;
}

}  // namespace lathe::dev
