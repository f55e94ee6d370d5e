// `lathe fuzz`: random tensor programs and random lists of options, compared with REF until the time is over.
// Each is run by a child, so that a crash or a hang is a failure like any other; a failure is investigated at
// once.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "lathe/dev/child_process.h"
#include "lathe/dev/fuzz.h"
#include "lathe/dev/investigate_kernel.h"
#include "lathe/error.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Options {
  double seconds = 60, patience = 60, budget = 60;
  std::uint64_t seed = 0;
  bool has_seed = false, worker = false, program = false, show = false, json = false, all = false;
  int count = 0, lists = 3;
  std::string folder = "fuzz-failures";
};

struct Totals {
  std::int64_t programs = 0, graphs = 0, kernels = 0, lists = 0, symbolic = 0, failures = 0;
};

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  return text;
}

// A seed a line; what became of it in fields.
int answer_seeds(const Options& options) {
  std::string line;
  while (std::getline(std::cin, line)) {
    const dev::FuzzSeed s = dev::fuzz_seed(std::stoull(line), options.lists, options.folder);
    fmt::print("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", s.kind, s.graphs, s.kernels, s.lists, s.symbolic,
               one_line(s.path), one_line(s.text));
    std::fflush(stdout);
  }
  return 0;
}

struct Tried {
  std::string kind, path, text;  // the kind is empty where nothing is wrong
};

Tried read_answer(const dev::ChildProcess::Answer& answer, Totals& totals) {
  if (!answer.ok) return {"program", "", answer.text};
  std::istringstream in(answer.text);
  std::vector<std::string> fields;
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  fields.resize(7);
  const auto number = [&](std::size_t i) { return std::atoll(fields[i].c_str()); };
  totals.graphs += number(1), totals.kernels += number(2);
  totals.lists += number(3), totals.symbolic += number(4);
  return {fields[0], fields[5], fields[6]};
}

// What is wrong with it, by experiment.
dev::Finding investigated(const Tried& tried, std::uint64_t seed, const std::string& self,
                          const Options& options) {
  dev::InvestigationLimits limits;
  limits.seconds = options.budget;
  limits.folder = options.folder;
  limits.run_seconds = options.patience;
  if (!tried.path.empty()) return dev::investigate_kernel(tried.path, limits);
  return dev::investigate_program({self, "fuzz", "--program", "--seed", std::to_string(seed)}, limits);
}

void tell(std::uint64_t seed, const Tried& tried, const dev::Finding& found, const Options& options) {
  const std::string again = fmt::format("lathe fuzz --count 1 --seed {}", seed);
  if (options.json) {
    fmt::print("{}\n", Json{{"seed", seed},
                            {"what", tried.kind},
                            {"error", tried.text},
                            {"kind", found.kind},
                            {"cause", found.cause},
                            {"verdict", found.summary},
                            {"way_out", found.way_out_verified ? found.way_out : ""},
                            {"repro", found.repro.empty() ? tried.path : found.repro},
                            {"again", again}}
                           .dump());
  } else {
    fmt::print("seed {}: {} {}: {}\n  verdict  {}\n", seed, tried.kind, tried.path, tried.text,
               found.summary);
    if (found.way_out_verified) fmt::print("  way out  {}\n", found.way_out);
    if (!found.repro.empty()) fmt::print("  repro    {} ({} nodes)\n", found.repro, found.repro_nodes);
    if (const std::string look = dev::inspect_command(found); !look.empty())
      fmt::print("  look at  {}\n", look);
    fmt::print("  again    {}\n", again);
  }
  std::fflush(stdout);
}

int fuzz(Options options) {
  using Clock = std::chrono::steady_clock;
  options.folder = fs::absolute(options.folder).string();
  fs::create_directories(options.folder);
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::vector<std::string> worker{
      self, "fuzz", "--worker", "--lists", std::to_string(options.lists), "--folder", options.folder};
  std::uint64_t seed = options.has_seed ? options.seed : std::random_device{}();
  if (!options.json) fmt::print("seeds from {}\n", seed);
  Totals totals;
  std::unique_ptr<dev::ChildProcess> child;
  const auto until = Clock::now() + std::chrono::duration<double>(options.seconds);
  const auto goes_on = [&] {
    if (options.count > 0) return totals.programs < options.count;
    return Clock::now() < until;
  };
  for (; goes_on() && (options.all || totals.failures == 0); ++seed) {
    if (child == nullptr) child = std::make_unique<dev::ChildProcess>(worker);
    const dev::ChildProcess::Answer answer = child->ask(std::to_string(seed), options.patience);
    if (!answer.ok) child.reset();
    const Tried tried = read_answer(answer, totals);
    ++totals.programs;
    if (tried.kind.empty()) continue;
    ++totals.failures;
    tell(seed, tried, investigated(tried, seed, self, options), options);
  }
  std::error_code ignored;
  if (totals.failures == 0) fs::remove(options.folder, ignored);  // only where it is empty
  if (options.json)
    fmt::print("{}\n", Json{{"programs", totals.programs},
                            {"graphs", totals.graphs},
                            {"kernels", totals.kernels},
                            {"lists", totals.lists},
                            {"symbolic_kernels", totals.symbolic},
                            {"failures", totals.failures}}
                           .dump());
  else
    fmt::print(
        "{} programs: {} graphs, {} kernels ({} with symbolic sizes), {} lists of options; {} failures\n",
        totals.programs, totals.graphs, totals.kernels, totals.symbolic, totals.lists, totals.failures);
  return totals.failures == 0 ? 0 : 1;
}

int run_fuzz(const Options& options) {
  if (options.worker) return answer_seeds(options);
  if ((options.program || options.show) && !options.has_seed)
    throw UserError("fuzz", "which program? --seed says");
  if (options.show) fmt::print("{}", dev::fuzz_program_text(options.seed));
  if (options.program) return dev::run_fuzz_program(options.seed) ? 0 : 1;
  return options.show ? 0 : fuzz(options);
}

}  // namespace

std::vector<Command> add_fuzz(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* fuzz =
      app.add_subcommand("fuzz", "random programs and options against REF; failures are investigated");
  fuzz->add_option("--seconds", options->seconds, "how long")->check(above_zero())->capture_default_str();
  fuzz->add_option("--count", options->count, "so many programs instead")->check(between(1, 1L << 30));
  CLI::Option* seed = fuzz->add_option("--seed", options->seed, "of the first program (a random one)");
  fuzz->add_option("--lists", options->lists, "lists of options for each kernel")
      ->check(between(0, 1000))
      ->capture_default_str();
  fuzz->add_option("--budget", options->budget, "seconds for the investigation of a failure")
      ->check(above_zero())
      ->capture_default_str();
  fuzz->add_option("--patience", options->patience, "seconds after which a program hangs")
      ->check(above_zero())
      ->capture_default_str();
  fuzz->add_option("--folder", options->folder, "where failures and repros go")->capture_default_str();
  fuzz->add_flag("--all", options->all, "go on after a failure");
  fuzz->add_flag("--json", options->json, "a line of JSON for each failure, and one with totals");
  fuzz->add_flag("--show", options->show, "print the program of a seed");
  fuzz->add_flag("--program", options->program, "run the program of a seed alone")->group("");
  fuzz->add_flag("--worker", options->worker, "answer seeds on standard input")->group("");
  return {{fuzz, [options, seed] {
             options->has_seed = seed->count() > 0;
             return run_fuzz(*options);
           }}};
}

}  // namespace lathe::tool
