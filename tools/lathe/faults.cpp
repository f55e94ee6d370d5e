// `lathe faults`: plants each fault of a build that has them, investigates a kernel that fails because of it,
// and says whether the investigation named what is broken. With --none nothing is planted, and nothing may
// be accused.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "lathe/dev/investigate_kernel.h"
#include "lathe/dev/planted_faults.h"
#include "lathe/error.h"
#include "tools/lathe/commands.h"
#include "tools/lathe/fault_judges.h"
#include "tools/lathe/scratch_folder.h"

namespace lathe::tool {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  bool json = false, list = false, none = false, hypotheses = false, judges = false;
  std::vector<std::string> only, files;
  std::string folder, program;
  double seconds = 50;
};

std::string verdict_of(const dev::FaultTrial& trial) {
  if (trial.subject.empty()) return "no kernel fails";
  if (trial.finding.kind.empty()) return "unknown";
  return trial.finding.kind + " " + trial.finding.cause;
}

void print_trial(const dev::FaultTrial& trial, const Options& options) {
  const dev::PlantedFault& fault = trial.fault;
  const std::string way_out = trial.finding.way_out_verified ? trial.finding.way_out : "";
  if (options.json) {
    const Json row{{"name", fault.name},
                   {"class", fault.part},
                   {"wrong_result", trial.wrong_result},
                   {"localised", trial.localised},
                   {"verdict", verdict_of(trial)},
                   {"ms", std::llround(trial.milliseconds)},
                   {"repro_nodes", trial.finding.repro_nodes},
                   {"way_out", way_out}};
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print("{:<28} {:<25} {:<4} {:<34} {:>7.0f} ms {:>4} nodes  {}\n", fault.name, fault.part,
               trial.localised ? "yes" : "no", verdict_of(trial), trial.milliseconds,
               trial.finding.repro_nodes, way_out);
  }
  if (options.hypotheses)
    for (const dev::Hypothesis& h : trial.finding.hypotheses)
      fmt::print("    {} [{}] {} ({:.0f} ms)\n", h.claim, static_cast<int>(h.verdict), h.evidence,
                 h.milliseconds);
  std::fflush(stdout);
}

double share(std::size_t part, std::size_t all) {
  return all == 0 ? 1 : static_cast<double>(part) / static_cast<double>(all);
}

// What an investigation has to reach, over all faults that make a wrong result.
constexpr double kLocalised = 0.95, kSmallRepros = 0.9, kMedianMs = 10e3, kWorstMs = 60e3;

// Prints them; whether all was reached.
bool print_totals(const std::vector<dev::FaultTrial>& trials, const Options& options) {
  std::size_t wrong = 0, localised = 0, small = 0, repros = 0, errors = 0, silent = 0;
  std::vector<double> times;
  for (const dev::FaultTrial& trial : trials) {
    silent += trial.subject.empty();
    errors += !trial.subject.empty() && !trial.wrong_result;
    if (!trial.wrong_result) continue;
    ++wrong;
    localised += trial.localised;
    repros += !trial.finding.repro.empty();
    small += !trial.finding.repro.empty() && trial.finding.repro_nodes <= 10;
    times.push_back(trial.milliseconds);
  }
  std::ranges::sort(times);
  const double median = times.empty() ? 0 : times[times.size() / 2], worst = times.empty() ? 0 : times.back();
  if (options.json) {
    const Json row{{"faults", trials.size()},
                   {"wrong_results", wrong},
                   {"errors", errors},
                   {"silent", silent},
                   {"localised", share(localised, wrong)},
                   {"repros_of_10_nodes", share(small, repros)},
                   {"median_ms", std::llround(median)},
                   {"worst_ms", std::llround(worst)}};
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print(
        "{} faults: {} give wrong results, {} errors, {} show on no kernel; of the wrong ones {:.0f} % are "
        "localised, {:.0f} % have repros of at most 10 nodes; median {:.0f} ms, worst {:.0f} ms\n",
        trials.size(), wrong, errors, silent, 100 * share(localised, wrong), 100 * share(small, repros),
        median, worst);
  }
  return silent == 0 && share(localised, wrong) >= kLocalised && share(small, repros) >= kSmallRepros &&
         median < kMedianMs && worst < kWorstMs;
}

int run_program(const std::string& name) {
  const dev::CheckedRun run = dev::run_checked_program(name);
  if (!run.race.empty()) fmt::print("{}{}\n", dev::kRaceHead, run.race);
  fmt::print("{}\n", run.right ? "right" : "wrong");
  return run.right ? 0 : 1;
}

// Files as they are, and all texts in folders.
std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      out.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".txt") out.push_back(entry.path().string());
  }
  std::ranges::sort(out);
  return out;
}

int accuse_nobody(const std::vector<std::string>& subjects, const dev::InvestigationLimits& limits) {
  std::size_t accused = 0, right = 0;
  for (const std::string& path : subjects) {
    const dev::Finding found = dev::investigate_kernel(path, limits);
    const auto confirms = [](const dev::Hypothesis& h) { return h.verdict == dev::Verdict::Confirmed; };
    const auto says_nothing = [](const dev::Hypothesis& h) { return h.verdict == dev::Verdict::Unknown; };
    right += std::ranges::none_of(found.hypotheses, confirms) &&
             std::ranges::none_of(found.hypotheses, says_nothing);
    if (found.kind.empty()) continue;
    ++accused;
    fmt::print("{}: {}\n", path, found.summary);
  }
  fmt::print("{} kernels and graphs without a fault: {} found right, {} not judged, {} accusations\n",
             subjects.size(), right, subjects.size() - right - accused, accused);
  return accused == 0 ? 0 : 1;
}

int run_faults(const Options& options) {
  const std::vector<dev::PlantedFault> all = dev::planted_faults();
  if (options.list) {
    for (const dev::PlantedFault& fault : all)
      fmt::print("{:<28} {:<25} {:<12} {:<20} {}\n", fault.name, fault.part, fault.kind, fault.cause,
                 fault.breaks);
    return 0;
  }
  if (!options.program.empty()) return run_program(options.program);
  if (!options.none && !dev::can_plant_faults())
    throw UserError("faults", "this build cannot plant faults")
        .help("scripts/build.sh faults makes a build that can; --none works with any build");
  const auto scratch = options.folder.empty() ? std::make_unique<ScratchFolder>("faults") : nullptr;
  const std::string folder = scratch ? scratch->path() : options.folder;
  dev::InvestigationLimits limits;
  limits.seconds = options.seconds;
  limits.folder = folder + "/repros";
  const std::vector<std::string> subjects =
      options.files.empty() ? dev::write_fault_subjects(folder) : files_of(options.files);
  if (options.none) return accuse_nobody(subjects, limits);
  for (const std::string& name : options.only)
    if (std::ranges::none_of(all, [&](const dev::PlantedFault& f) { return f.name == name; }))
      throw UserError("faults", "no fault is named '" + name + "'").help("lathe faults --list lists them");
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::vector<std::string>> commands;
  for (const std::string& program : dev::checked_programs())
    commands.push_back({self, "faults", "--program", program});
  std::vector<dev::PlantedFault> chosen;
  for (const dev::PlantedFault& fault : all)
    if (options.only.empty() || std::ranges::find(options.only, fault.name) != options.only.end())
      chosen.push_back(fault);
  if (options.judges) return judge_faults(chosen, subjects, commands, options.json) ? 0 : 1;
  std::vector<dev::FaultTrial> trials;
  for (const dev::PlantedFault& fault : chosen) {
    trials.push_back(dev::try_fault(fault, subjects, commands, limits));
    print_trial(trials.back(), options);
  }
  return print_totals(trials, options) ? 0 : 1;
}

}  // namespace

std::vector<Command> add_faults(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* faults =
      app.add_subcommand("faults", "plant faults and test whether an investigation finds them");
  faults->add_flag("--json", options->json, "print a line of JSON for each fault and one with totals");
  faults->add_flag("--list", options->list, "only print the names of the faults");
  faults->add_flag("--none", options->none, "plant nothing and check that no kernel is blamed");
  faults->add_flag("--judges", options->judges,
                   "test which of Lathe's checks notices which fault, without an investigation");
  faults->add_flag("--hypotheses", options->hypotheses, "print the hypotheses of each investigation");
  faults->add_option(
      "--on", options->files,
      "saved kernels and graphs, or folders of them, to test on instead of the built-in small programs");
  faults->add_option("--only", options->only, "only these faults");
  faults->add_option("--program", options->program, "run one of the programs that faults are tested on")
      ->group("");
  faults->add_option("--folder", options->folder, "folder to keep kernels and reproducers in");
  faults->add_option("--seconds", options->seconds, "time limit of one investigation")->capture_default_str();
  return {{faults, [options] { return run_faults(*options); }}};
}

}  // namespace lathe::tool
