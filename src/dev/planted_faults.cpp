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
#include "codegen/codegen.h"
#include "dev/fault_programs.h"
#include "dev/fault_subjects.h"
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
// Options that are far from the heuristic's lists, each for the first kernels that take it.
constexpr const char* kGivenLists[] = {"JOIN(0, 1)", "PADTO(0, 7)",     "SWAP(0, 1)",
                                       "TILE(0, 4)", "TC(0, -1, 1, 1)", "TC(1, -1, 1, 1)"};
constexpr int kKernelsOfAList = 4;
// Graphs with more elements than this take REF too long.
constexpr double kMostElements = 2e5;

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

bool takes(Node kernel, const std::vector<Opt>& list, const Target& target) {
  const Compile compile(target);
  return static_cast<bool>(try_options(kernel, list, compile.quiet()));
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

// An option is found with its axis and argument. Where the fault is in the result of the step that applies
// them, it is in any option's.
bool is_localised(const PlantedFault& fault, const Finding& found) {
  if (!names(fault.kind, found.kind)) return false;
  if (found.kind != "option") return names(fault.cause, found.cause);
  return fault.cause == "option_ranges" || names(fault.cause, found.cause.substr(0, found.cause.find('(')));
}

}  // namespace

bool can_plant_faults() { return kCanPlant; }

std::vector<PlantedFault> planted_faults() {
  std::vector<PlantedFault> out;
#if LATHE_FAULTS
  for (const FaultRow& row : fault_table())
    out.push_back({std::string(row.name), std::string(row.part), std::string(row.kind),
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
  for (const char* text : kGivenLists) {
    int taken = 0;
    for (const investigate::Subject& subject : subjects) {
      investigate::Subject other = subject;
      other.options = parse_opts(text);
      other.options_from = "user";
      if (taken == kKernelsOfAList || !takes(other.kernel, other.options, target)) continue;
      ++taken;
      add(other);
    }
  }
  // Threads of a group, which no device of this machine may have: on REF.
  const std::string grouped = grouped_target();
  const auto add_grouped = [&](investigate::Subject subject, const std::vector<Opt>& list) {
    subject.device = "NULL:" + grouped;
    subject.options = list;
    subject.options_from = "user";
    add(subject);
  };
  const auto add_written = [&](const char* name, const std::string& kernel, const char* options) {
    investigate::Subject subject;
    subject.name = name;
    subject.kernel = parse_graph(kernel);
    add_grouped(std::move(subject), parse_opts(options));
  };
  add_written("nest", nested_group_kernel(), "GROUPTOP(1, 16)");
  add_written("panels", staged_product_kernel(),
              "TC(1, 4, 1, 1) STAGE(3, 4, 2) STAGE(3, 5, 2) PIPELINE(3, 3)");
  for (const investigate::Subject& subject : subjects)
    for (const std::vector<Opt>& list : more_lists(subject.kernel, {}, named_target(grouped))) {
      const bool has_group = std::ranges::any_of(list, [](const Opt& o) {
        return o.op == OptOp::GROUP || o.op == OptOp::GROUPTOP || o.op == OptOp::LOCAL;
      });
      if (has_group) add_grouped(subject, list);
    }
  for (const std::string& path : graphs)
    if (elements_of(investigate::read_graph(path)) <= kMostElements) out.push_back(path);
  return out;
}

PlantedScope::PlantedScope(const PlantedFault& fault) { setenv("LATHE_FAULT", fault.name.c_str(), 1); }
PlantedScope::~PlantedScope() { unsetenv("LATHE_FAULT"); }

investigate::Subject read_subject_for(const PlantedFault& fault, const std::string& path) {
  investigate::Subject subject = investigate::read_subject(path);
  if (fault.kind == "printer" && fault.cause == "c") subject.printer = "c";
  return subject;
}

investigate::Outcome outcome_of(const PlantedFault& fault, const std::string& path,
                                investigate::Laboratory& laboratory) {
  return investigate::is_graph_file(path) ? laboratory.schedule(investigate::read_graph(path), {}).outcome
                                          : laboratory.device(read_subject_for(fault, path), {}, 1).outcome;
}

bool is_around_kernels(const PlantedFault& fault) {
  return fault.kind == "memory plan" || fault.kind == "wait" || fault.kind == "capture";
}

namespace {

class Trial {
 public:
  Trial(const PlantedFault& fault, const InvestigationLimits& limits) : limits_(limits), planted_(fault) {
    trial_.fault = fault;
  }

  FaultTrial on_files(const std::vector<std::string>& files) {
    std::string refused;
    for (const std::string& path : files) {
      const investigate::Outcome outcome = outcome_of(trial_.fault, path, laboratory_);
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
  Finding investigate_file(const std::string& path) {
    if (investigate::is_graph_file(path))
      return investigate::investigate(investigate::read_graph(path), laboratory_, limits_, {});
    return investigate::investigate(read_subject_for(trial_.fault, path), laboratory_, limits_, {});
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
  const PlantedScope planted_;
  FaultTrial trial_;
  const Scope scope_;
  investigate::WorkerLaboratory laboratory_;
};

}  // namespace

FaultTrial try_fault(const PlantedFault& fault, const std::vector<std::string>& subjects,
                     const std::vector<std::vector<std::string>>& commands,
                     const InvestigationLimits& limits) {
  Trial trial(fault, limits);
  return is_around_kernels(fault) ? trial.on_commands(commands) : trial.on_files(subjects);
}

}  // namespace lathe::dev
