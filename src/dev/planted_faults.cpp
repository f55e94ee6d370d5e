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
#include "engine/engine.h"
#include "engine/graph_text.h"
#include "investigate/graph_investigation.h"
#include "investigate/kernel_investigation.h"
#include "investigate/program_investigation.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "runtime/devices.h"
#include "runtime/registry.h"
#include "search/limits.h"
#include "search/space.h"

namespace lathe::dev {
namespace {

namespace fs = std::filesystem;

// Lists of options beside the heuristic's, for each kernel.
constexpr std::size_t kMoreLists = 6;
// Graphs with more elements than this take REF too long.
constexpr double kMostElements = 2e5;

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

// One whose threads come in groups.
std::string grouped_target() {
  for (const Backend& backend : registry().all()) {
    if (!backend.targets || backend.name == "NULL") continue;
    for (const std::string& name : backend.targets())
      if (named_target(name).groups) return name;
  }
  throw UserError("faults", "no target of this build has groups of threads");
}

// Of all values of a graph: what REF computes one by one.
double elements_of(const investigate::GraphSubject& graph) {
  double all = 0;
  const std::vector<Node> targets(graph.targets.begin(), graph.targets.end());
  for (Node n : toposort(targets)) {
    double elements = 1;
    for (Node size : n.shape()) elements *= static_cast<double>(std::max<std::int64_t>(size.hi(), 1));
    all += elements;
  }
  return all;
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
  std::vector<std::string> files, graphs, out;
  const std::string saved = folder + "/saved";
  fs::remove_all(saved);  // of another time
  fs::create_directories(saved);
  {
    const FlagScope save(Flag::Save, saved), cache(Flag::Cache, "off"), check(Flag::Check, "off");
    engine::set_observer([&](const engine::Call& call) {
      const std::vector<Node> targets(call.targets.begin(), call.targets.end());
      graphs.push_back(fmt::format("{}/graph_{:03}.txt", folder, graphs.size()));
      write_file_atomic(graphs.back(), engine::graph_text(fmt::format("{}", graphs.size()), targets),
                        Sync::No);
    });
    run_fault_programs();
    engine::set_observer({});
  }
  for (const auto& entry : fs::directory_iterator(saved)) files.push_back(entry.path().string());
  std::ranges::sort(files);
  std::ranges::sort(graphs, {}, [](const std::string& path) { return fs::file_size(path); });
  std::vector<investigate::Subject> subjects;
  for (const std::string& file : files) subjects.push_back(investigate::read_subject(file));
  const Scope scope;
  for (const std::string& text : fault_kernels()) {
    investigate::Subject subject;
    subject.name = fmt::format("written_{}", subjects.size());
    subject.kernel = parse_graph(text);
    subjects.push_back(std::move(subject));
  }
  std::ranges::stable_sort(subjects, {},
                           [](const investigate::Subject& s) { return investigate::node_count(s.kernel); });
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
  const std::string grouped = grouped_target();
  {
    investigate::Subject nest;
    nest.name = "nest";
    nest.kernel = parse_graph(nested_group_kernel());
    nest.options = parse_opts("GROUPTOP(1, 16)");
    nest.options_from = "user";
    nest.device = "NULL:" + grouped;
    add(nest);
  }
  for (const investigate::Subject& subject : subjects)
    for (const std::vector<Opt>& list : more_lists(subject.kernel, {}, named_target(grouped))) {
      const bool has_group = std::ranges::any_of(list, [](const Opt& o) {
        return o.op == OptOp::GROUP || o.op == OptOp::GROUPTOP || o.op == OptOp::LOCAL;
      });
      if (!has_group) continue;
      investigate::Subject other = subject;
      other.device = "NULL:" + grouped;
      other.options = list;
      other.options_from = "user";
      add(other);
    }
  for (const std::string& path : graphs)
    if (elements_of(investigate::read_graph(path)) <= kMostElements) out.push_back(path);
  return out;
}

namespace {

// One fault, while the environment of what is started names it.
class Trial {
 public:
  Trial(const PlantedFault& fault, const InvestigationLimits& limits) : limits_(limits) {
    trial_.fault = fault;
    setenv("LATHE_FAULT", fault.name.c_str(), 1);
  }
  ~Trial() { unsetenv("LATHE_FAULT"); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  FaultTrial on_files(const std::vector<std::string>& files) {
    std::string refused;
    for (const std::string& path : files) {
      const investigate::Outcome outcome = outcome_of(path);
      if (outcome == investigate::Outcome::Refused && refused.empty()) refused = path;
      if (!investigate::is_failure(outcome) || outcome == investigate::Outcome::Refused) continue;
      trial_.wrong_result = true;
      return investigated(path, [&] { return investigate_file(path); });
    }
    return refused.empty() ? trial_ : investigated(refused, [&] { return investigate_file(refused); });
  }

  FaultTrial on_commands(const std::vector<std::vector<std::string>>& commands) {
    for (const std::vector<std::string>& command : commands) {
      const Finding found = investigate::investigate_command(command, laboratory_, limits_, {});
      if (found.kind.empty()) continue;
      trial_.wrong_result = true;
      return investigated(command.back(), [&] {
        return investigate::investigate_command(command, laboratory_, limits_, {});
      });
    }
    return trial_;
  }

 private:
  investigate::Subject subject(const std::string& path) const {
    investigate::Subject subject = investigate::read_subject(path);
    if (trial_.fault.kind == "printer" && trial_.fault.cause == "c") subject.printer = "c";
    return subject;
  }
  investigate::Outcome outcome_of(const std::string& path) {
    return investigate::is_graph_file(path) ? laboratory_.schedule(investigate::read_graph(path), {}).outcome
                                            : laboratory_.device(subject(path), {}, 1).outcome;
  }
  Finding investigate_file(const std::string& path) {
    if (investigate::is_graph_file(path))
      return investigate::investigate(investigate::read_graph(path), laboratory_, limits_, {});
    return investigate::investigate(subject(path), laboratory_, limits_, {});
  }
  template <class Investigate>
  FaultTrial investigated(const std::string& on, Investigate&& investigate_it) {
    using Clock = std::chrono::steady_clock;
    trial_.subject = on;
    const Clock::time_point begin = Clock::now();
    trial_.finding = investigate_it();
    trial_.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    trial_.localised = is_localised(trial_.fault, trial_.finding);
    return trial_;
  }

  const InvestigationLimits& limits_;
  FaultTrial trial_;
  const Scope scope_;
  investigate::WorkerLaboratory laboratory_;
};

bool is_around_kernels(const PlantedFault& fault) {
  return fault.kind == "memory plan" || fault.kind == "wait" || fault.kind == "capture";
}

}  // namespace

FaultTrial try_fault(const PlantedFault& fault, const std::vector<std::string>& subjects,
                     const std::vector<std::vector<std::string>>& commands,
                     const InvestigationLimits& limits) {
  Trial trial(fault, limits);
  return is_around_kernels(fault) ? trial.on_commands(commands) : trial.on_files(subjects);
}

}  // namespace lathe::dev
